#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace deepinfer {

// The project's own elementary functions: results must not depend on the C library or on the
// instruction set (docs/numerics.md, rule 14). `std::fma` and `std::sqrt` are correctly rounded.

/// Constants of the float32 exponential, shared with the vector form in ops/cpu.
struct ExpConstants {
  static constexpr float kLog2E = 0x1.715476p+0F;
  static constexpr float kLn2High = 0x1.62e4p-1F;  // 15 bits: n * kLn2High is exact for |n| < 2^9
  static constexpr float kLn2Low = 0x1.7f7d1cp-20F;
  static constexpr float kRound = 0x1.8p23F;  // adding and subtracting it rounds to an integer
  static constexpr float kMin = -87.33F;      // below: 0 (the result would be subnormal)
  static constexpr float kMax = 88.37F;       // above: +infinity
  // Taylor coefficients 1/k!, k = 7 .. 0; |r| <= ln(2)/2 leaves an error below 2^-26.
  static constexpr float kC7 = 0x1.a01a02p-13F;
  static constexpr float kC6 = 0x1.6c16c2p-10F;
  static constexpr float kC5 = 0x1.111112p-7F;
  static constexpr float kC4 = 0x1.555556p-5F;
  static constexpr float kC3 = 0x1.555556p-3F;
  static constexpr float kC2 = 0x1p-1F;
};

/// e^x in float32, within 1 ulp for results that are normal numbers; 0 below -87.33, +infinity
/// above 88.37, NaN for NaN.
inline float exp_f32(float x) {
  using C = ExpConstants;
  if (!(x >= C::kMin)) return std::isnan(x) ? x : 0.0F;
  if (x > C::kMax) return std::bit_cast<float>(0x7f800000U);
  const float shifted = std::fma(x, C::kLog2E, C::kRound);
  const float n = shifted - C::kRound;
  float r = std::fma(n, -C::kLn2High, x);
  r = std::fma(n, -C::kLn2Low, r);
  float p = C::kC7;
  p = std::fma(p, r, C::kC6);
  p = std::fma(p, r, C::kC5);
  p = std::fma(p, r, C::kC4);
  p = std::fma(p, r, C::kC3);
  p = std::fma(p, r, C::kC2);
  p = std::fma(p, r, 1.0F);
  p = std::fma(p, r, 1.0F);
  const auto exponent = static_cast<std::int32_t>(n);
  return p * std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
}

/// 1 / (1 + e^-x).
inline float sigmoid_f32(float x) { return 1.0F / (1.0F + exp_f32(-x)); }

/// Natural logarithm in float64, within 2 ulp. x > 0; log(0) is -infinity, a negative x gives NaN.
double log_f64(double x);

/// log(1 + x) in float64 for x >= 0.
double log1p_f64(double x);

/// e^x in float64, within 2 ulp for |x| < 700.
double exp_f64(double x);

struct SinCos {
  double sin;
  double cos;
};
/// Sine and cosine in float64 for |x| up to 2^30, absolute error below 1e-15.
SinCos sincos_f64(double x);

// --- reductions of docs/numerics.md, rules 1 and 2, as plain loops -------------------------------

/// The fixed tree over sixteen partial sums.
inline float reduce16(float (&acc)[16]) {
  for (int width = 8; width >= 1; width /= 2) {
    for (int j = 0; j < width; ++j) acc[j] += acc[j + width];
  }
  return acc[0];
}

/// Rule 1: `acc[k mod 16] = fma(a[k], b[k], acc[k mod 16])`, then the tree.
float dot16(std::span<const float> a, std::span<const float> b);

inline float sum16(std::span<const float> a) {
  float acc[16] = {};
  for (std::size_t k = 0; k < a.size(); ++k) acc[k % 16] += a[k];
  return reduce16(acc);
}

}  // namespace deepinfer
