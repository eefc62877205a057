#pragma once

#include <cstdint>
#include <span>

#include "base/tensor.h"
#include "ops/ops.h"

namespace deepinfer::cpu {

// Row-wise kernels: one call works on rows [first, last) of an op. Shapes as in ops/ops.h.

void rms_norm_rows(ConstMatrix x, std::span<const float> weight, float eps, Matrix y,
                   std::int64_t first, std::int64_t last);

/// products[t][k] *= 1 / rms of x[t], then finish_hc_mixes.
void hc_finish_rows(ConstMatrix x, Matrix products, const HyperConnectionWeights& weights,
                    const HyperConnectionParams& params, Matrix pre, Matrix post, Matrix comb,
                    std::int64_t first, std::int64_t last);

void hc_collapse_norm_rows(ConstMatrix x, ConstMatrix p, std::span<const float> norm, float eps,
                           Matrix v, std::int64_t first, std::int64_t last);

/// At most kMaxStreams streams.
constexpr std::int64_t kMaxStreams = 64;
void hc_expand_rows(Matrix x, ConstMatrix y, ConstMatrix post, ConstMatrix comb, std::int64_t first,
                    std::int64_t last);

void rope_rows(Matrix x, std::int64_t heads, ConstMatrix cos, ConstMatrix sin, bool inverse,
               std::int64_t first, std::int64_t last);

/// out = softmax-weighted mean of two (gate, value) rows of n elements.
void pool_pair(const float* gate_a, const float* value_a, const float* gate_b, const float* value_b,
               float* out, std::int64_t n);

/// One row; `weighted` has room for x.cols / streams floats.
void engram_gate_row(float* x, const float* kv, const float* q_weight, const float* k_weight,
                     std::int64_t hidden, int streams, float eps, float* gates, float* weighted);

/// gate[i] = ((g / (1 + exp(-g))) * u) * weight with g, u clamped when limit > 0.
void expert_activation(float* gate, const float* up, std::int64_t n, float limit, float weight);

/// y += x.
void add_rows(float* y, const float* x, std::int64_t n);

/// Decodes a cache record of `dim` values; `out` has room for dim rounded up to 16 and the tail is
/// filled with -0 (lanes16-inl.h).
void decode_record_row(RecordFormat format, const std::byte* record, std::int64_t dim, float* out);

}  // namespace deepinfer::cpu
