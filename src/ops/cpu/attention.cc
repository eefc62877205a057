// Latent attention: all heads of a query row share its keys, so the keys are decoded once and the
// scores are a small GEMM.

#include "ops/cpu/targets.h"
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/attention.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <algorithm>

#include "ops/cpu/attention.h"
#include "ops/cpu/dot_tile-inl.h"
#include "ops/cpu/records-inl.h"
#include "ops/cpu/vector_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace deepinfer::cpu::HWY_NAMESPACE {

/// Decodes the keys of row t in rule 7's order to rows of `stride` floats; returns their number.
std::int64_t gather_keys(const AttentionKeys& keys, std::int64_t t, std::int64_t dim,
                         std::int64_t stride, AttentionScratch& scratch) {
  const auto row = static_cast<std::size_t>(t);
  const std::int64_t fresh_first = keys.fresh_first[row];
  const std::int64_t capacity = keys.ring_width + (t - fresh_first + 1) + keys.selected_width;
  // Rows are read four at a time.
  float* const out = scratch.keys.reserve((capacity + 3) / 4 * 4 * stride);
  std::int64_t count = 0;
  const auto append = [&](const ConstCacheRows& pool, std::int64_t index) HWY_ATTR {
    decode_record_lanes(pool.format, pool.row(index), dim, out + count * stride);
    ++count;
  };
  for (std::int64_t i = 0; i < keys.ring_width; ++i) {
    const std::int32_t index = keys.ring_rows[row * static_cast<std::size_t>(keys.ring_width) +
                                              static_cast<std::size_t>(i)];
    if (index >= 0) append(keys.ring, index);
  }
  for (std::int64_t index = fresh_first; index <= t; ++index) append(keys.fresh, index);
  if (keys.compressed != nullptr) {
    const std::int64_t sequence = keys.sequence[row];
    for (std::int64_t i = 0; i < keys.selected_width; ++i) {
      const std::int32_t entry = keys.selected[row * static_cast<std::size_t>(keys.selected_width) +
                                               static_cast<std::size_t>(i)];
      if (entry < 0) break;
      append(keys.compressed->pool, keys.compressed->row_of(sequence, entry));
    }
  }
  // The last group of four reads rows that hold nothing; their results are dropped.
  for (std::int64_t r = count; r % 4 != 0; ++r) std::fill_n(out + r * stride, stride, 0.0F);
  return count;
}

/// scores[0 .. count) become weights; returns the denominator.
HWY_INLINE float softmax_weights(float* scores, std::int64_t count, float scale, float sink) {
  const FloatTag d;
  const FloatVec factor = hn::Set(d, scale);
  FloatVec max_lanes = hn::Set(d, sink);
  std::int64_t i = 0;
  for (; i + static_cast<std::int64_t>(kLanes) <= count; i += kLanes) {
    const FloatVec s = hn::Mul(hn::LoadU(d, scores + i), factor);
    hn::StoreU(s, d, scores + i);
    max_lanes = hn::Max(max_lanes, s);
  }
  HWY_ALIGN float lanes[kLanes];
  hn::Store(max_lanes, d, lanes);
  float max = *std::max_element(lanes, lanes + kLanes);
  for (; i < count; ++i) {
    scores[i] *= scale;
    max = std::max(max, scores[i]);
  }
  const FloatVec shift = hn::Set(d, max);
  for (i = 0; i < count; i += kLanes) {
    const auto left = static_cast<std::size_t>(count - i);
    store_lanes(exp_lanes(hn::Sub(load_lanes(scores + i, left), shift)), scores + i, left);
  }
  return sum(scores, static_cast<std::size_t>(count)) + exp_f32(sink - max);
}

/// out[h][d] = sum over keys in order of weights[h][key] * keys[key][d], divided by the head's
/// denominator, for kHeads heads and kVectors vectors of d.
template <int kHeads, int kVectors>
HWY_INLINE void weighted_keys(const float* keys, std::int64_t stride, std::int64_t count,
                              float* const* weights, const float* denominators, std::int64_t first,
                              std::int64_t left, float* const* out) {
  const FloatTag d;
  FloatVec acc[kHeads][kVectors];
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) acc[h][v] = hn::Zero(d);
  }
  for (std::int64_t k = 0; k < count; ++k) {
    const float* const key = keys + k * stride + first;
    FloatVec value[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) value[v] = hn::LoadU(d, key + v * kLanes);
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      const FloatVec w = hn::Set(d, weights[h][k]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) acc[h][v] = fused(w, value[v], acc[h][v]);
    }
  }
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
    const FloatVec divisor = hn::Set(d, denominators[h]);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t rest = left - v * static_cast<std::int64_t>(kLanes);
      if (rest <= 0) break;
      store_lanes(hn::Div(acc[h][v], divisor), out[h] + first + v * kLanes,
                  static_cast<std::size_t>(rest));
    }
  }
}

template <int kHeads>
HWY_INLINE void weighted_keys_of_heads(const float* keys, std::int64_t stride, std::int64_t count,
                                       float* const* weights, const float* denominators,
                                       std::int64_t dim, std::int64_t first, float* const* out) {
  constexpr int kVectors = kLanes == 8 ? 2 : 4;
  constexpr std::int64_t kWide = kVectors * static_cast<std::int64_t>(kLanes);
  const std::int64_t end = std::min(dim, first + kWide);
  if (end - first > kWide - static_cast<std::int64_t>(kLanes)) {
    weighted_keys<kHeads, kVectors>(keys, stride, count, weights, denominators, first, end - first,
                                    out);
    return;
  }
  for (; first < end; first += kLanes) {
    weighted_keys<kHeads, 1>(keys, stride, count, weights, denominators, first, end - first, out);
  }
}

void attention_lanes(ConstMatrix q, std::int64_t heads, const AttentionKeys& keys,
                     std::span<const float> sink, float scale, Matrix out, std::int64_t t,
                     std::int64_t first, std::int64_t last, AttentionScratch& scratch) {
  constexpr int kHeads = 4;
  const std::int64_t dim = q.cols / heads;
  const std::int64_t padded = (dim + 15) / 16 * 16;
  // A cache line more, so that the columns of many keys do not fall into the same sets.
  const std::int64_t stride = padded + 16;
  const std::int64_t count = gather_keys(keys, t, dim, stride, scratch);
  const std::int64_t head_count = last - first;
  const std::int64_t score_stride = (count + 15) / 16 * 16 + 16;
  const float* const key_rows = scratch.keys.reserve(0);
  float* const scores = scratch.scores.reserve(head_count * score_stride);
  const float** const query_rows = scratch.query_rows.reserve(head_count);
  float** const score_rows = scratch.score_rows.reserve(head_count);
  float* const padded_queries = scratch.queries.reserve(head_count * padded);
  for (std::int64_t h = 0; h < head_count; ++h) {
    query_rows[h] = q.row(t) + (first + h) * dim;
    score_rows[h] = scores + h * score_stride;
    if (padded != dim) {
      float* const copy = padded_queries + h * padded;
      std::copy_n(query_rows[h], dim, copy);
      std::fill_n(copy + dim, padded - dim, 0.0F);
      query_rows[h] = copy;
    }
  }
  dot_rows(key_rows, stride, count, query_rows, head_count, padded / 16, score_rows);
  float* const denominators = padded_queries;  // the queries are no longer needed
  for (std::int64_t h = 0; h < head_count; ++h) {
    denominators[h] =
        softmax_weights(score_rows[h], count, scale, sink[static_cast<std::size_t>(first + h)]);
  }
  constexpr std::int64_t kWide = (kLanes == 8 ? 2 : 4) * static_cast<std::int64_t>(kLanes);
  // Columns outside: their part of the keys (count x 256 B) is read from L2 by all heads in turn.
  for (std::int64_t column = 0; column < dim; column += kWide) {
    std::int64_t h = 0;
    float* rows[kHeads];
    for (; h + kHeads <= head_count; h += kHeads) {
      for (int i = 0; i < kHeads; ++i) rows[i] = out.row(t) + (first + h + i) * dim;
      weighted_keys_of_heads<kHeads>(key_rows, stride, count, score_rows + h, denominators + h, dim,
                                     column, rows);
    }
    for (; h < head_count; ++h) {
      rows[0] = out.row(t) + (first + h) * dim;
      weighted_keys_of_heads<1>(key_rows, stride, count, score_rows + h, denominators + h, dim,
                                column, rows);
    }
  }
}

void decode_record_into(RecordFormat format, const std::byte* record, std::int64_t dim,
                        float* out) {
  decode_record_lanes(format, record, dim, out);
}

}  // namespace deepinfer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deepinfer::cpu {

HWY_EXPORT(attention_lanes);
HWY_EXPORT(decode_record_into);

void attention_heads(ConstMatrix q, std::int64_t heads, const AttentionKeys& keys,
                     std::span<const float> sink, float scale, Matrix out, std::int64_t t,
                     std::int64_t first, std::int64_t last, AttentionScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(attention_lanes)
  (q, heads, keys, sink, scale, out, t, first, last, scratch);
}

void decode_record_row(RecordFormat format, const std::byte* record, std::int64_t dim, float* out) {
  HWY_DYNAMIC_DISPATCH(decode_record_into)(format, record, dim, out);
}

}  // namespace deepinfer::cpu
#endif
