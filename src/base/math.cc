#include "base/math.h"

#include <limits>

namespace deepinfer {
namespace {

constexpr double kLn2High = 0x1.62e42fefa38p-1;   // 42 bits: n * kLn2High is exact for |n| < 2^11
constexpr double kLn2Low = 0x1.ef35793c7673p-45;  // ln 2 - kLn2High
constexpr double kLog2E = 0x1.71547652b82fep+0;
constexpr double kRound = 0x1.8p52;

inline __attribute__((always_inline)) float dot16_loop(std::span<const float> a,
                                                       std::span<const float> b) {
  float acc[16] = {};
  const std::size_t whole = a.size() / 16 * 16;
  for (std::size_t k = 0; k < whole; k += 16) {
    for (std::size_t j = 0; j < 16; ++j) acc[j] = std::fma(a[k + j], b[k + j], acc[j]);
  }
  for (std::size_t k = whole; k < a.size(); ++k)
    acc[k - whole] = std::fma(a[k], b[k], acc[k - whole]);
  return reduce16(acc);
}

float dot16_portable(std::span<const float> a, std::span<const float> b) {
  return dot16_loop(a, b);
}

#if defined(__x86_64__)
// The same loop with the fused multiply-add as an instruction instead of a library call: the same
// bits, about ten times faster, which keeps the reference back end usable in tests.
__attribute__((target("avx2,fma"))) float dot16_fma(std::span<const float> a,
                                                    std::span<const float> b) {
  return dot16_loop(a, b);
}
#endif

}  // namespace

float dot16(std::span<const float> a, std::span<const float> b) {
#if defined(__x86_64__)
  static const bool has_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_fma) return dot16_fma(a, b);
#endif
  return dot16_portable(a, b);
}

double log_f64(double x) {
  if (std::isnan(x) || x < 0) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0) return -std::numeric_limits<double>::infinity();
  if (std::isinf(x)) return x;
  int shift = 0;
  if (x < 0x1p-1022) {  // subnormal: make it normal first
    x *= 0x1p54;
    shift = -54;
  }
  const auto bits = std::bit_cast<std::uint64_t>(x);
  // Split x = 2^n * m with m in [sqrt(1/2), sqrt(2)): moving the exponent boundary to sqrt(1/2)
  // keeps log(m) small, so that n * ln2 and log(m) never cancel.
  constexpr std::uint64_t kSqrtHalf = 0x3fe6a09e667f3bcdULL;
  const auto n = static_cast<std::int64_t>(bits - kSqrtHalf) >> 52;
  const auto m = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(n) << 52));
  // log(m) = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.1716; write it as f - s*(f - R) with
  // f = m - 1, which is exact, so that small results keep their relative accuracy.
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  double p = 2.0 / 25.0;
  for (int k = 23; k >= 3; k -= 2) p = std::fma(p, z, 2.0 / k);
  const double r = p * z;
  const double half_square = 0.5 * f * f;
  const auto exponent = static_cast<double>(n + shift);
  const double tail = std::fma(s, half_square + r, exponent * kLn2Low);
  return exponent * kLn2High - ((half_square - tail) - f);
}

double log1p_f64(double x) {
  const double u = 1.0 + x;
  if (u == 1.0) return x;
  // u differs from 1 + x by a rounding; the quotient x / (u - 1) corrects log(u) for it.
  return log_f64(u) * (x / (u - 1.0));
}

double exp_f64(double x) {
  if (std::isnan(x)) return x;
  if (x > 709.0) return std::numeric_limits<double>::infinity();
  if (x < -708.0) return 0.0;
  const double n = std::fma(x, kLog2E, kRound) - kRound;
  double r = std::fma(n, -kLn2High, x);
  r = std::fma(n, -kLn2Low, r);
  double p = 1.0;
  for (int k = 14; k >= 1; --k) p = std::fma(p, r / k, 1.0);
  const auto exponent = static_cast<std::int64_t>(n);
  return p * std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

SinCos sincos_f64(double x) {
  // pi/2 in three parts; with fma each step rounds once, which leaves the reduced argument exact to
  // far below 1e-16 for |x| < 2^30.
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  constexpr double kPio2High = 0x1.921fb54442d18p+0;
  constexpr double kPio2Mid = 0x1.1a62633145c07p-54;
  constexpr double kPio2Low = -0x1.f1976b7ed8fbcp-110;
  const double n = std::fma(x, kTwoOverPi, kRound) - kRound;
  double r = std::fma(n, -kPio2High, x);
  r = std::fma(n, -kPio2Mid, r);
  r = std::fma(n, -kPio2Low, r);
  const double z = r * r;
  double ps = 1.0;
  for (int k = 19; k >= 3; k -= 2) ps = std::fma(-z / (k * (k - 1)), ps, 1.0);
  const double sine = r * ps;
  double cosine = 1.0;
  for (int k = 20; k >= 2; k -= 2) cosine = std::fma(-z / (k * (k - 1)), cosine, 1.0);
  switch (static_cast<std::int64_t>(n) & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

}  // namespace deepinfer
