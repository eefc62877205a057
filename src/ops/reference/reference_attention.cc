#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "ops/reference/reference_ops.h"
#include "ops/scalar_kernels.h"

namespace deepinfer {
namespace {

/// The decoded keys of query row t, in the order of docs/numerics.md rule 7.
std::vector<std::vector<float>> gather_keys(const AttentionKeys& keys, std::int64_t t) {
  std::vector<std::vector<float>> list;
  const auto append = [&](const ConstCacheRows& pool, std::int64_t row) {
    list.emplace_back(static_cast<std::size_t>(pool.dim));
    decode_record(pool.format, pool.row(row), list.back());
  };
  for (std::int64_t i = 0; i < keys.ring_width; ++i) {
    const std::int32_t row = keys.ring_rows[static_cast<std::size_t>(t * keys.ring_width + i)];
    if (row >= 0) append(keys.ring, row);
  }
  for (std::int64_t row = keys.fresh_first[static_cast<std::size_t>(t)]; row <= t; ++row) {
    append(keys.fresh, row);
  }
  if (keys.compressed == nullptr) return list;
  for (std::int64_t i = 0; i < keys.selected_width; ++i) {
    const std::int32_t entry = keys.selected[static_cast<std::size_t>(t * keys.selected_width + i)];
    if (entry < 0) break;
    append(keys.compressed->pool,
           keys.compressed->row_of(keys.sequence[static_cast<std::size_t>(t)], entry));
  }
  return list;
}

}  // namespace

void ReferenceOps::attention(ConstMatrix q, std::int64_t heads, const AttentionKeys& keys,
                             std::span<const float> sink, float scale, Matrix out) {
  const std::int64_t dim = q.cols / heads;
  for (std::int64_t t = 0; t < q.rows; ++t) {
    const auto list = gather_keys(keys, t);
    std::vector<float> weight(list.size());
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::span<const float> query{q.row(t) + h * dim, static_cast<std::size_t>(dim)};
      float max = sink[static_cast<std::size_t>(h)];
      for (std::size_t k = 0; k < list.size(); ++k) {
        weight[k] = dot16(query, list[k]) * scale;
        max = std::max(max, weight[k]);
      }
      for (float& w : weight) w = exp_f32(w - max);
      const float denominator = sum16(weight) + exp_f32(sink[static_cast<std::size_t>(h)] - max);
      float* const result = out.row(t) + h * dim;
      for (std::int64_t d = 0; d < dim; ++d) {
        float sum = 0.0F;
        for (std::size_t k = 0; k < list.size(); ++k) sum = std::fma(weight[k], list[k][d], sum);
        result[d] = sum / denominator;
      }
    }
  }
}

void ReferenceOps::index_select(ConstMatrix query, ConstMatrix weights, const PagedRows& keys,
                                std::span<const std::int32_t> sequence,
                                std::span<const std::int32_t> visible,
                                const IndexSelectParams& params, std::span<std::int32_t> blocks,
                                std::span<std::int32_t> selected) {
  std::vector<float> key(static_cast<std::size_t>(params.head_dim));
  std::vector<ScoredEntry> scored;
  std::vector<ScoredEntry> scratch;
  std::vector<float> scores;
  for (std::int64_t t = 0; t < query.rows; ++t) {
    const auto row = static_cast<std::size_t>(t);
    std::span<std::int32_t> row_blocks;
    if (params.candidates != CandidateMode::kNone) {
      row_blocks = blocks.subspan(row * static_cast<std::size_t>(params.candidate_blocks),
                                  static_cast<std::size_t>(params.candidate_blocks));
    }
    const auto score = [&](std::int32_t entry) {
      decode_record(keys.pool.format, keys.pool.row(keys.row_of(sequence[row], entry)), key);
      float sum = 0.0F;
      for (std::int64_t h = 0; h < params.heads; ++h) {
        const std::span<const float> head{query.row(t) + h * params.head_dim, key.size()};
        sum = std::fma(weights.row(t)[h], std::max(0.0F, dot16(head, key)), sum);
      }
      return sum;
    };
    scored.clear();
    if (params.candidates == CandidateMode::kUse) {
      const auto size = static_cast<std::int32_t>(params.candidate_block_size);
      for (const std::int32_t block : row_blocks) {
        if (block < 0) break;
        const std::int32_t end = std::min((block + 1) * size, visible[row]);
        for (std::int32_t e = block * size; e < end; ++e) scored.push_back({score(e), e});
      }
    } else {
      for (std::int32_t e = 0; e < visible[row]; ++e) scored.push_back({score(e), e});
    }
    if (params.candidates == CandidateMode::kPublish) {
      scores.clear();
      for (const ScoredEntry& entry : scored) scores.push_back(entry.score);
      publish_blocks(scores, params, row_blocks, scratch);
    }
    keep_best(scored, params.top_k,
              selected.subspan(row * static_cast<std::size_t>(params.top_k),
                               static_cast<std::size_t>(params.top_k)));
  }
}

}  // namespace deepinfer
