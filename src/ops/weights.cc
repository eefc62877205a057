#include "ops/weights.h"

#include <cstring>

#include "base/dtype.h"
#include "base/error.h"

namespace deepinfer {
namespace {

std::uint16_t load_u16(const std::byte* data) {
  std::uint16_t value = 0;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

void require_matrix(const TensorView& weight, const char* what) {
  if (weight.shape.rank() != 2) {
    fail_internal(std::string(what) + ": expected a matrix, found shape " +
                  to_string(weight.shape));
  }
}

}  // namespace

LinearWeight LinearWeight::rows_from(std::int64_t first, std::int64_t count) const {
  LinearWeight part = *this;
  part.data = data + first * row_bytes();
  part.rows = count;
  if (format == WeightFormat::kFp8Block32) {
    if (first % 32 != 0) fail_internal("an FP8 weight can be sliced at multiples of 32 rows only");
    part.scale = scale + first / 32 * scale_cols();
  } else if (format == WeightFormat::kFp4Group32) {
    part.scale = scale + first * scale_cols();
  }
  return part;
}

LinearWeight plain_weight(const TensorView& weight) {
  require_matrix(weight, "plain weight");
  if (weight.dtype != DType::kF32 && weight.dtype != DType::kBF16) {
    fail_internal("plain weight: dtype " + std::string(to_string(weight.dtype)));
  }
  return {weight.dtype == DType::kF32 ? WeightFormat::kF32 : WeightFormat::kBF16, weight.data,
          nullptr, weight.shape[0], weight.shape[1]};
}

LinearWeight fp8_weight(const TensorView& weight, const TensorView& scale) {
  require_matrix(weight, "FP8 weight");
  const Shape expected{(weight.shape[0] + 31) / 32, (weight.shape[1] + 31) / 32};
  if (scale.shape != expected) fail_internal("FP8 scale: shape " + to_string(scale.shape));
  return {WeightFormat::kFp8Block32, weight.data, reinterpret_cast<const std::uint8_t*>(scale.data),
          weight.shape[0], weight.shape[1]};
}

LinearWeight fp4_weight(const TensorView& weight, const TensorView& scale) {
  require_matrix(weight, "FP4 weight");
  const Shape expected{weight.shape[0], (weight.shape[1] * 2 + 31) / 32};
  if (scale.shape != expected) fail_internal("FP4 scale: shape " + to_string(scale.shape));
  return {WeightFormat::kFp4Group32, weight.data, reinterpret_cast<const std::uint8_t*>(scale.data),
          weight.shape[0], weight.shape[1] * 2};
}

void decode_row(const LinearWeight& weight, std::int64_t row, float* out) {
  const std::byte* data = weight.data + row * weight.row_bytes();
  switch (weight.format) {
    case WeightFormat::kF32:
      std::memcpy(out, data, static_cast<std::size_t>(weight.cols) * sizeof(float));
      return;
    case WeightFormat::kBF16:
      for (std::int64_t c = 0; c < weight.cols; ++c) out[c] = bf16_to_float(load_u16(data + 2 * c));
      return;
    case WeightFormat::kFp8Block32: {
      const std::uint8_t* scale = weight.scale + row / 32 * weight.scale_cols();
      for (std::int64_t c = 0; c < weight.cols; ++c) {
        out[c] = e4m3_to_float(static_cast<std::uint8_t>(data[c])) * e8m0_to_float(scale[c / 32]);
      }
      return;
    }
    case WeightFormat::kFp4Group32: {
      const std::uint8_t* scale = weight.scale + row * weight.scale_cols();
      for (std::int64_t c = 0; c < weight.cols; ++c) {
        const auto packed = static_cast<std::uint8_t>(data[c / 2]);
        const std::uint8_t code = c % 2 == 0 ? packed & 15U : packed >> 4;
        out[c] = e2m1_to_float(code) * e8m0_to_float(scale[c / 32]);
      }
      return;
    }
  }
}

std::vector<float> decode_vector(const TensorView& vector) {
  const std::int64_t count = vector.shape.elements();
  std::vector<float> out(static_cast<std::size_t>(count));
  if (count == 0) return out;
  const LinearWeight row = plain_weight({vector.data, vector.dtype, Shape{1, count}});
  decode_row(row, 0, out.data());
  return out;
}

}  // namespace deepinfer
