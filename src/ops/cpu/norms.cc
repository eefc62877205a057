// RMSNorm, hyper-connections, the Engram gate: dot products of a row with itself and elementwise
// passes over it.

#include "ops/cpu/targets.h"
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/norms.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include <cmath>

#include "ops/cpu/lanes16-inl.h"
#include "ops/cpu/vector_kernels.h"
#include "ops/scalar_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace deepinfer::cpu::HWY_NAMESPACE {

HWY_INLINE float inverse_rms(const float* x, std::int64_t n, float eps) {
  return 1.0F / std::sqrt(dot(x, x, static_cast<std::size_t>(n)) / static_cast<float>(n) + eps);
}

HWY_INLINE void normalise(const float* x, const float* weight, float r, float* y, std::int64_t n) {
  const FloatVec factor = hn::Set(FloatTag(), r);
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const auto left = static_cast<std::size_t>(n - i);
    const FloatVec scaled = hn::Mul(load_lanes(x + i, left), factor);
    store_lanes(hn::Mul(scaled, load_lanes(weight + i, left)), y + i, left);
  }
}

void rms_norm_lanes(ConstMatrix x, std::span<const float> weight, float eps, Matrix y,
                    std::int64_t first, std::int64_t last) {
  for (std::int64_t t = first; t < last; ++t) {
    normalise(x.row(t), weight.data(), inverse_rms(x.row(t), x.cols, eps), y.row(t), x.cols);
  }
}

void hc_finish_lanes(ConstMatrix x, Matrix products, const HyperConnectionWeights& weights,
                     const HyperConnectionParams& params, Matrix pre, Matrix post, Matrix comb,
                     std::int64_t first, std::int64_t last) {
  for (std::int64_t t = first; t < last; ++t) {
    const float r = inverse_rms(x.row(t), x.cols, params.rms_eps);
    for (float& m : products.row_span(t)) m *= r;
    finish_hc_mixes(products.row_span(t), weights, params, pre.row(t), post.row(t), comb.row(t));
  }
}

void hc_collapse_norm_lanes(ConstMatrix x, ConstMatrix p, std::span<const float> norm, float eps,
                            Matrix v, std::int64_t first, std::int64_t last) {
  const FloatTag d;
  const std::int64_t hidden = v.cols;
  for (std::int64_t t = first; t < last; ++t) {
    const float* const row = x.row(t);
    const float* const mix = p.row(t);
    for (std::int64_t i = 0; i < hidden; i += kLanes) {
      const auto left = static_cast<std::size_t>(hidden - i);
      FloatVec u = hn::Mul(hn::Set(d, mix[0]), load_lanes(row + i, left));
      for (std::int64_t s = 1; s < p.cols; ++s) {
        u = fused(hn::Set(d, mix[s]), load_lanes(row + s * hidden + i, left), u);
      }
      store_lanes(u, v.row(t) + i, left);
    }
    normalise(v.row(t), norm.data(), inverse_rms(v.row(t), hidden, eps), v.row(t), hidden);
  }
}

void hc_expand_lanes(Matrix x, ConstMatrix y, ConstMatrix post, ConstMatrix comb,
                     std::int64_t first, std::int64_t last) {
  const FloatTag d;
  const std::int64_t streams = post.cols;
  const std::int64_t hidden = y.cols;
  for (std::int64_t t = first; t < last; ++t) {
    float* const row = x.row(t);
    const float* const mix = comb.row(t);
    for (std::int64_t i = 0; i < hidden; i += kLanes) {
      const auto left = static_cast<std::size_t>(hidden - i);
      const FloatVec added = load_lanes(y.row(t) + i, left);
      FloatVec before[kMaxStreams];
      for (std::int64_t s = 0; s < streams; ++s) before[s] = load_lanes(row + s * hidden + i, left);
      for (std::int64_t j = 0; j < streams; ++j) {
        FloatVec value = hn::Mul(hn::Set(d, post.row(t)[j]), added);
        for (std::int64_t s = 0; s < streams; ++s) {
          value = fused(hn::Set(d, mix[s * streams + j]), before[s], value);
        }
        store_lanes(value, row + j * hidden + i, left);
      }
    }
  }
}

void engram_gate_lanes(float* x, const float* kv, const float* q_weight, const float* k_weight,
                       std::int64_t hidden, int streams, float eps, float* gates, float* weighted) {
  const FloatTag d;
  const auto n = static_cast<float>(hidden);
  const float scale = 1.0F / std::sqrt(n);
  const float* const value = kv + streams * hidden;
  for (int s = 0; s < streams; ++s) {
    float* const stream = x + s * hidden;
    const float* const key = kv + s * hidden;
    for (std::int64_t i = 0; i < hidden; i += kLanes) {
      const auto left = static_cast<std::size_t>(hidden - i);
      const FloatVec wf = hn::Mul(load_lanes(q_weight + s * hidden + i, left),
                                  load_lanes(k_weight + s * hidden + i, left));
      store_lanes(hn::Mul(load_lanes(stream + i, left), wf), weighted + i, left);
    }
    const float stream_r = inverse_rms(stream, hidden, eps);
    const float key_r = inverse_rms(key, hidden, eps);
    const float product = dot(weighted, key, static_cast<std::size_t>(hidden));
    const float gate = engram_gate_value(((product * stream_r) * key_r) * scale);
    if (gates != nullptr) gates[s] = gate;
    for (std::int64_t i = 0; i < hidden; i += kLanes) {
      const auto left = static_cast<std::size_t>(hidden - i);
      store_lanes(
          fused(hn::Set(d, gate), load_lanes(value + i, left), load_lanes(stream + i, left)),
          stream + i, left);
    }
  }
}

}  // namespace deepinfer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deepinfer::cpu {

HWY_EXPORT(rms_norm_lanes);
HWY_EXPORT(hc_finish_lanes);
HWY_EXPORT(hc_collapse_norm_lanes);
HWY_EXPORT(hc_expand_lanes);
HWY_EXPORT(engram_gate_lanes);

void rms_norm_rows(ConstMatrix x, std::span<const float> weight, float eps, Matrix y,
                   std::int64_t first, std::int64_t last) {
  HWY_DYNAMIC_DISPATCH(rms_norm_lanes)(x, weight, eps, y, first, last);
}

void hc_finish_rows(ConstMatrix x, Matrix products, const HyperConnectionWeights& weights,
                    const HyperConnectionParams& params, Matrix pre, Matrix post, Matrix comb,
                    std::int64_t first, std::int64_t last) {
  HWY_DYNAMIC_DISPATCH(hc_finish_lanes)
  (x, products, weights, params, pre, post, comb, first, last);
}

void hc_collapse_norm_rows(ConstMatrix x, ConstMatrix p, std::span<const float> norm, float eps,
                           Matrix v, std::int64_t first, std::int64_t last) {
  HWY_DYNAMIC_DISPATCH(hc_collapse_norm_lanes)(x, p, norm, eps, v, first, last);
}

void hc_expand_rows(Matrix x, ConstMatrix y, ConstMatrix post, ConstMatrix comb, std::int64_t first,
                    std::int64_t last) {
  HWY_DYNAMIC_DISPATCH(hc_expand_lanes)(x, y, post, comb, first, last);
}

void engram_gate_row(float* x, const float* kv, const float* q_weight, const float* k_weight,
                     std::int64_t hidden, int streams, float eps, float* gates, float* weighted) {
  HWY_DYNAMIC_DISPATCH(engram_gate_lanes)
  (x, kv, q_weight, k_weight, hidden, streams, eps, gates, weighted);
}

}  // namespace deepinfer::cpu
#endif
