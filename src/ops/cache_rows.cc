#include "ops/cache_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/dtype.h"

namespace deepinfer {
namespace {

constexpr float kFp8Max = 448.0F;
constexpr float kFp8Floor = 1e-4F;
constexpr float kFp4Max = 6.0F;
constexpr float kFp4Floor = 6.0F * 0x1p-126F;
constexpr float kFp4E4M3Floor = 6.0F * 0x1p-9F;

float absolute_max(std::span<const float> x) {
  float amax = 0.0F;
  for (const float value : x) amax = std::max(amax, std::fabs(value));
  return amax;
}

/// 2^(127 - byte), the inverse of a UE8M0 scale; both are exact powers of two.
float inverse_scale(std::uint8_t byte) { return std::ldexp(1.0F, 127 - static_cast<int>(byte)); }

void set_nibble(std::uint8_t* packed, std::size_t index, std::uint8_t code) {
  std::uint8_t& byte = packed[index / 2];
  byte = index % 2 == 0 ? static_cast<std::uint8_t>((byte & 0xf0U) | code)
                        : static_cast<std::uint8_t>((byte & 0x0fU) | (code << 4));
}

std::uint8_t nibble(const std::uint8_t* packed, std::size_t index) {
  return index % 2 == 0 ? packed[index / 2] & 15U : packed[index / 2] >> 4;
}

}  // namespace

std::int64_t record_bytes(RecordFormat format, std::int64_t dim) {
  switch (format) {
    case RecordFormat::kF32:
      return dim * 4;
    case RecordFormat::kFp8Group32:
      return dim + dim / 32;
    case RecordFormat::kFp4Group16E4M3:
      return dim / 2 + dim / 16;
    case RecordFormat::kFp4Group32:
      return dim / 2 + dim / 32;
  }
  return 0;
}

void encode_record(RecordFormat format, std::span<const float> x, std::byte* record) {
  auto* const bytes = reinterpret_cast<std::uint8_t*>(record);
  const std::size_t dim = x.size();
  switch (format) {
    case RecordFormat::kF32:
      std::memcpy(record, x.data(), x.size_bytes());
      return;
    case RecordFormat::kFp8Group32:
      for (std::size_t group = 0; group < dim / 32; ++group) {
        const auto values = x.subspan(group * 32, 32);
        const std::uint8_t scale = e8m0_scale_for(absolute_max(values), kFp8Max, kFp8Floor);
        const float inverse = inverse_scale(scale);
        for (std::size_t i = 0; i < 32; ++i) {
          bytes[group * 32 + i] = float_to_e4m3(values[i] * inverse);
        }
        bytes[dim + group] = scale;
      }
      return;
    case RecordFormat::kFp4Group16E4M3:
      for (std::size_t group = 0; group < dim / 16; ++group) {
        const auto values = x.subspan(group * 16, 16);
        const float amax = std::max(absolute_max(values), kFp4E4M3Floor);
        const std::uint8_t scale = float_to_e4m3(std::min(amax * (1.0F / 6.0F), kFp8Max));
        const float inverse = 1.0F / e4m3_to_float(scale);
        for (std::size_t i = 0; i < 16; ++i) {
          set_nibble(bytes, group * 16 + i, float_to_e2m1(values[i] * inverse));
        }
        bytes[dim / 2 + group] = scale;
      }
      return;
    case RecordFormat::kFp4Group32:
      for (std::size_t group = 0; group < dim / 32; ++group) {
        const auto values = x.subspan(group * 32, 32);
        const std::uint8_t scale = e8m0_scale_for(absolute_max(values), kFp4Max, kFp4Floor);
        const float inverse = inverse_scale(scale);
        for (std::size_t i = 0; i < 32; ++i) {
          set_nibble(bytes, group * 32 + i, float_to_e2m1(values[i] * inverse));
        }
        bytes[dim / 2 + group] = scale;
      }
      return;
  }
}

void decode_record(RecordFormat format, const std::byte* record, std::span<float> out) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(record);
  const std::size_t dim = out.size();
  switch (format) {
    case RecordFormat::kF32:
      std::memcpy(out.data(), record, out.size_bytes());
      return;
    case RecordFormat::kFp8Group32:
      for (std::size_t i = 0; i < dim; ++i) {
        out[i] = e4m3_to_float(bytes[i]) * e8m0_to_float(bytes[dim + i / 32]);
      }
      return;
    case RecordFormat::kFp4Group16E4M3:
      for (std::size_t i = 0; i < dim; ++i) {
        out[i] = e2m1_to_float(nibble(bytes, i)) * e4m3_to_float(bytes[dim / 2 + i / 16]);
      }
      return;
    case RecordFormat::kFp4Group32:
      for (std::size_t i = 0; i < dim; ++i) {
        out[i] = e2m1_to_float(nibble(bytes, i)) * e8m0_to_float(bytes[dim / 2 + i / 32]);
      }
      return;
  }
}

}  // namespace deepinfer
