#pragma once

#include <cstdint>
#include <span>

#include "ops/cpu/scratch.h"
#include "ops/ops.h"

namespace deepinfer::cpu {

struct AttentionScratch {
  GrowBuffer<const std::byte*> records;
  GrowBuffer<float> keys;     ///< decoded keys of one query row
  GrowBuffer<float> scores;   ///< [heads, keys]
  GrowBuffer<float> queries;  ///< padded copies where a head is no multiple of 16 wide
  GrowBuffer<const float*> query_rows;
  GrowBuffer<float*> score_rows;
};

/// Heads [first, last) of query row t (docs/numerics.md, rule 7).
void attention_heads(ConstMatrix q, std::int64_t heads, const AttentionKeys& keys,
                     std::span<const float> sink, float scale, Matrix out, std::int64_t t,
                     std::int64_t first, std::int64_t last, AttentionScratch& scratch);

struct IndexScratch {
  GrowBuffer<float> keys;
  GrowBuffer<float> dots;
  GrowBuffer<float> queries;
  GrowBuffer<const float*> query_rows;
  GrowBuffer<float*> dot_rows;
};

/// scores[i] = index score of entries[i] for one query row (rule 9): query [heads * dim],
/// weights [heads].
void index_scores(const float* query, const float* weights, const IndexSelectParams& params,
                  const PagedRows& keys, std::int64_t sequence,
                  std::span<const std::int32_t> entries, float* scores, IndexScratch& scratch);

}  // namespace deepinfer::cpu
