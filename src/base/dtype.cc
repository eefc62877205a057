#include "base/dtype.h"

#include <algorithm>

namespace deepinfer {

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kBF16:
      return "BF16";
    case DType::kF8E4M3:
      return "F8_E4M3";
    case DType::kF8E8M0:
      return "F8_E8M0";
    case DType::kI8:
      return "I8";
    case DType::kU8:
      return "U8";
    case DType::kI32:
      return "I32";
    case DType::kI64:
      return "I64";
  }
  return "unknown";
}

namespace {

/// Nearest integer, ties to even, for 0 <= value < 2^22: adding 2^23 leaves no fraction bits, and
/// the addition itself rounds to nearest even.
float round_half_even(float value) { return (value + 0x1p23F) - 0x1p23F; }

}  // namespace

std::uint8_t float_to_e4m3(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>((bits >> 24) & 0x80U);
  const std::uint32_t magnitude_bits = bits & 0x7fffffffU;
  if (magnitude_bits > 0x7f800000U) return static_cast<std::uint8_t>(sign | 0x7fU);
  const auto magnitude = std::bit_cast<float>(magnitude_bits);
  if (magnitude >= 448.0F) return static_cast<std::uint8_t>(sign | 0x7eU);
  if (magnitude < 0x1p-6F) {  // subnormal: multiples of 2^-9; 8 steps carry into the first normal
    return static_cast<std::uint8_t>(
        sign | static_cast<std::uint8_t>(round_half_even(magnitude * 512.0F)));
  }
  // Round the mantissa to three bits on the bit pattern; a carry moves into the exponent.
  const std::uint32_t rounded = magnitude_bits + 0x7ffffU + ((magnitude_bits >> 20) & 1U);
  const std::uint32_t code = (rounded >> 20) - (120U << 3);
  return static_cast<std::uint8_t>(sign | std::min(code, 0x7eU));
}

std::uint8_t float_to_e2m1(float value) {
  if (std::isnan(value)) return 7;
  const std::uint8_t sign = std::signbit(value) ? 8 : 0;
  const float magnitude = std::min(std::fabs(value), 6.0F);
  float code = 0;
  if (magnitude < 2.0F) {
    code = round_half_even(2.0F * magnitude);
  } else if (magnitude < 4.0F) {
    code = round_half_even(magnitude) + 2.0F;
  } else {
    code = round_half_even(0.5F * magnitude) + 4.0F;
  }
  return static_cast<std::uint8_t>(sign | static_cast<std::uint8_t>(code));
}

}  // namespace deepinfer
