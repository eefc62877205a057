#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace deepinfer {

/// Element types of checkpoints and caches. kF8E8M0 is a power-of-two scale (UE8M0), kI8 holds two
/// packed E2M1 codes a byte where a weight is FP4.
enum class DType : std::uint8_t { kF32, kBF16, kF8E4M3, kF8E8M0, kI8, kU8, kI32, kI64 };

constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kI64:
      return 8;
    case DType::kBF16:
      return 2;
    default:
      return 1;
  }
}

/// The safetensors tag (`F32`, `BF16`, `F8_E4M3`, `F8_E8M0`, `I8`, `U8`, `I32`, `I64`).
std::string_view to_string(DType dtype);

// --- exact decoders (model.md 4.3, 4.5): every stored format is exact in float32 ----------------

inline float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Round to nearest even. NaN stays NaN.
inline std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/// 2^(byte - 127). Byte 255 is NaN; byte 0 is 2^-127, a subnormal float.
inline float e8m0_to_float(std::uint8_t byte) {
  if (byte == 0) return std::bit_cast<float>(0x00400000U);
  if (byte == 255) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(static_cast<std::uint32_t>(byte) << 23);
}

/// E4M3 "fn": bias 7, no infinity, 0x7F and 0xFF are NaN, largest value 448.
inline float e4m3_to_float(std::uint8_t byte) {
  const std::uint32_t sign = static_cast<std::uint32_t>(byte & 0x80U) << 24;
  const std::uint32_t exponent = (byte >> 3) & 15U;
  const std::uint32_t mantissa = byte & 7U;
  if (exponent == 15U && mantissa == 7U) {
    return std::bit_cast<float>(sign | 0x7fc00000U);
  }
  if (exponent == 0) {  // mantissa * 2^-9
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  return std::bit_cast<float>(sign | ((exponent + 120U) << 23) | (mantissa << 20));
}

/// E2M1 code (4 bits): sign and the magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6.
inline float e2m1_to_float(std::uint8_t code) {
  constexpr float kMagnitudes[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  const float magnitude = kMagnitudes[code & 7U];
  return (code & 8U) != 0 ? -magnitude : magnitude;
}

// --- encoders (round to nearest, ties to even; saturating) --------------------------------------

/// Saturates at +-448; NaN becomes NaN.
std::uint8_t float_to_e4m3(float value);

/// Saturates at +-6; NaN becomes 6 (model.md 4.5).
std::uint8_t float_to_e2m1(float value);

/// The exponent byte of a 1xN group with UE8M0 scale, model.md 4.4:
/// byte - 127 = ceil(log2(max(amax, floor) / qmax)), on bits, so that an exact power of two keeps
/// its exponent. For E4M3 pass qmax 448 and floor 1e-4; for E2M1 6 and 6 * 2^-126.
inline std::uint8_t e8m0_scale_for(float amax, float qmax, float floor) {
  const float clamped = amax > floor ? amax : floor;
  const auto bits = std::bit_cast<std::uint32_t>(clamped * (1.0F / qmax));
  return static_cast<std::uint8_t>(((bits - 1U) >> 23) + 1U);
}

}  // namespace deepinfer
