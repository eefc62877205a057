// Index scores: a GEMM of short K (128) of all index heads of a query with a tile of keys, then the
// weighted sum over heads with keys in the lanes.

#include "ops/cpu/targets.h"
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/indexer.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>

#include "ops/cpu/attention.h"
#include "ops/cpu/dot_tile-inl.h"
#include "ops/cpu/records-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepinfer::cpu::HWY_NAMESPACE {

/// Keys decoded at a time: 64 keys of 128 floats are 32 KiB, their dots with 64 heads 16 KiB.
constexpr std::int64_t kKeys = 64;

void index_scores_lanes(const float* query, const float* weights, const IndexSelectParams& params,
                        const PagedRows& keys, std::int64_t sequence,
                        std::span<const std::int32_t> entries, float* scores,
                        IndexScratch& scratch) {
  const FloatTag d;
  const std::int64_t dim = params.head_dim;
  const std::int64_t padded = (dim + 15) / 16 * 16;
  const std::int64_t stride = padded + 16;
  float* const key_rows = scratch.keys.reserve(kKeys * stride);
  float* const dots = scratch.dots.reserve(params.heads * kKeys);
  const float** const query_rows = scratch.query_rows.reserve(params.heads);
  float** const dot_row = scratch.dot_rows.reserve(params.heads);
  float* const queries = padded == dim ? nullptr : scratch.queries.reserve(params.heads * padded);
  for (std::int64_t h = 0; h < params.heads; ++h) {
    query_rows[h] = query + h * dim;
    dot_row[h] = dots + h * kKeys;
    if (queries != nullptr) {
      std::copy_n(query_rows[h], dim, queries + h * padded);
      std::fill_n(queries + h * padded + dim, padded - dim, 0.0F);
      query_rows[h] = queries + h * padded;
    }
  }
  const auto total = static_cast<std::int64_t>(entries.size());
  for (std::int64_t first = 0; first < total; first += kKeys) {
    const std::int64_t count = std::min(kKeys, total - first);
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t row = keys.row_of(sequence, entries[static_cast<std::size_t>(first + k)]);
      decode_record_lanes(keys.pool.format, keys.pool.row(row), dim, key_rows + k * stride);
    }
    for (std::int64_t k = count; k % kTileRows != 0; ++k) {
      std::fill_n(key_rows + k * stride, stride, 0.0F);
    }
    dot_rows(key_rows, stride, count, query_rows, params.heads, padded / 16, dot_row);
    for (std::int64_t k = 0; k < count; k += kLanes) {
      FloatVec score = hn::Zero(d);
      for (std::int64_t h = 0; h < params.heads; ++h) {
        const FloatVec product = hn::LoadU(d, dot_row[h] + k);
        // std::max(0, dot): zero for NaN and for -0 too.
        const FloatVec positive = hn::IfThenElseZero(hn::Lt(hn::Zero(d), product), product);
        score = fused(hn::Set(d, weights[h]), positive, score);
      }
      store_lanes(score, scores + first + k, static_cast<std::size_t>(count - k));
    }
  }
}

}  // namespace deepinfer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deepinfer::cpu {

HWY_EXPORT(index_scores_lanes);

void index_scores(const float* query, const float* weights, const IndexSelectParams& params,
                  const PagedRows& keys, std::int64_t sequence,
                  std::span<const std::int32_t> entries, float* scores, IndexScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(index_scores_lanes)
  (query, weights, params, keys, sequence, entries, scores, scratch);
}

}  // namespace deepinfer::cpu
#endif
