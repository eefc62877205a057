#pragma once

#include <array>
#include <cstdint>

#include "base/dtype.h"

namespace deepinfer::cpu {

/// 2^(b - 127) for every UE8M0 byte: one broadcast load in a kernel instead of a shift and two
/// special cases (byte 0 is subnormal, byte 255 is NaN).
inline const std::array<float, 256> kE8M0Table = [] {
  std::array<float, 256> table{};
  for (int b = 0; b < 256; ++b) {
    table[static_cast<std::size_t>(b)] = e8m0_to_float(static_cast<std::uint8_t>(b));
  }
  return table;
}();

inline const std::array<float, 256> kE4M3Table = [] {
  std::array<float, 256> table{};
  for (int b = 0; b < 256; ++b) {
    table[static_cast<std::size_t>(b)] = e4m3_to_float(static_cast<std::uint8_t>(b));
  }
  return table;
}();

/// An E4M3 code moved into the exponent and mantissa of an FP16 number is its value times 2^-8
/// (biases 7 and 15), subnormals included. The 2^8 goes into the scale, which must not overflow:
/// scales above kFp8MaxFoldedScale take the plain path.
constexpr std::uint8_t kFp8MaxFoldedScale = 246;

/// 2^8 * 2^(b - 127), for b <= kFp8MaxFoldedScale.
inline const std::array<float, 256> kFp8ScaleTable = [] {
  std::array<float, 256> table{};
  for (int b = 0; b <= kFp8MaxFoldedScale; ++b) {
    table[static_cast<std::size_t>(b)] = e8m0_to_float(static_cast<std::uint8_t>(b)) * 256.0F;
  }
  return table;
}();

/// The values of the sixteen E2M1 codes.
alignas(64) inline constexpr float kE2M1Table[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,
                                                     4.0F,  6.0F,  -0.0F, -0.5F, -1.0F, -1.5F,
                                                     -2.0F, -3.0F, -4.0F, -6.0F};

}  // namespace deepinfer::cpu
