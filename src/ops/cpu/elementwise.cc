// RoPE, pooled pairs, the experts' activation: elementwise, no reduction.

#include "ops/cpu/targets.h"
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/elementwise.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include "ops/cpu/lanes16-inl.h"
#include "ops/cpu/vector_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace deepinfer::cpu::HWY_NAMESPACE {

/// 64 of 512 elements of a head turn: plain code is no share of a step's time. No product is fused.
void rope_lanes(Matrix x, std::int64_t heads, ConstMatrix cos, ConstMatrix sin, bool inverse,
                std::int64_t first, std::int64_t last) {
  const std::int64_t dim = x.cols / heads;
  const std::int64_t pairs = cos.cols;
  const float sign = inverse ? -1.0F : 1.0F;
  for (std::int64_t t = first; t < last; ++t) {
    const float* const cosine = cos.row(t);
    const float* const sine = sin.row(t);
    for (std::int64_t h = 0; h < heads; ++h) {
      float* const tail = x.row(t) + (h + 1) * dim - 2 * pairs;
      for (std::int64_t i = 0; i < pairs; ++i) {
        const float s = sign * sine[i];
        const float x0 = tail[2 * i];
        const float x1 = tail[2 * i + 1];
        tail[2 * i] = x0 * cosine[i] - x1 * s;
        tail[2 * i + 1] = x0 * s + x1 * cosine[i];
      }
    }
  }
}

void pool_pair_lanes(const float* gate_a, const float* value_a, const float* gate_b,
                     const float* value_b, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const auto left = static_cast<std::size_t>(n - i);
    const FloatVec ga = load_lanes(gate_a + i, left);
    const FloatVec gb = load_lanes(gate_b + i, left);
    const FloatVec max = hn::IfThenElse(hn::Lt(ga, gb), gb, ga);
    const FloatVec a = exp_lanes(hn::Sub(ga, max));
    const FloatVec b = exp_lanes(hn::Sub(gb, max));
    const FloatVec total = hn::Add(a, b);
    const FloatVec first = hn::Mul(hn::Div(a, total), load_lanes(value_a + i, left));
    store_lanes(fused(hn::Div(b, total), load_lanes(value_b + i, left), first), out + i, left);
  }
}

void expert_activation_lanes(float* gate, const float* up, std::int64_t n, float limit,
                             float weight) {
  const FloatTag d;
  const FloatVec one = hn::Set(d, 1.0F);
  const FloatVec high = hn::Set(d, limit);
  const FloatVec low = hn::Set(d, -limit);
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const auto left = static_cast<std::size_t>(n - i);
    FloatVec g = load_lanes(gate + i, left);
    FloatVec u = load_lanes(up + i, left);
    if (limit > 0.0F) {  // as std::min and std::clamp: NaN stays
      g = hn::IfThenElse(hn::Lt(high, g), high, g);
      u = hn::IfThenElse(hn::Lt(u, low), low, hn::IfThenElse(hn::Lt(high, u), high, u));
    }
    const FloatVec silu = hn::Div(g, hn::Add(one, exp_lanes(hn::Neg(g))));
    store_lanes(hn::Mul(hn::Mul(silu, u), hn::Set(d, weight)), gate + i, left);
  }
}

void add_lanes(float* y, const float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const auto left = static_cast<std::size_t>(n - i);
    store_lanes(hn::Add(load_lanes(y + i, left), load_lanes(x + i, left)), y + i, left);
  }
}

}  // namespace deepinfer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deepinfer::cpu {

HWY_EXPORT(rope_lanes);
HWY_EXPORT(pool_pair_lanes);
HWY_EXPORT(expert_activation_lanes);
HWY_EXPORT(add_lanes);

void rope_rows(Matrix x, std::int64_t heads, ConstMatrix cos, ConstMatrix sin, bool inverse,
               std::int64_t first, std::int64_t last) {
  HWY_DYNAMIC_DISPATCH(rope_lanes)(x, heads, cos, sin, inverse, first, last);
}

void pool_pair(const float* gate_a, const float* value_a, const float* gate_b, const float* value_b,
               float* out, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(pool_pair_lanes)(gate_a, value_a, gate_b, value_b, out, n);
}

void expert_activation(float* gate, const float* up, std::int64_t n, float limit, float weight) {
  HWY_DYNAMIC_DISPATCH(expert_activation_lanes)(gate, up, n, limit, weight);
}

void add_rows(float* y, const float* x, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(add_lanes)(y, x, n);
}

}  // namespace deepinfer::cpu
#endif
