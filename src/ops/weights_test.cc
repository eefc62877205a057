#include "ops/weights.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"

namespace deepinfer {
namespace {

TensorView view(const std::vector<std::uint8_t>& bytes, DType dtype, Shape shape) {
  return {reinterpret_cast<const std::byte*>(bytes.data()), dtype, shape};
}

TEST(Weights, DecodesPackedFp4LowNibbleFirst) {
  std::vector<std::uint8_t> packed(16, 0);
  packed[0] = 0x21;
  packed[1] = 0x7a;
  packed[2] = 0x80;
  packed[3] = 0xf3;
  const std::vector<std::uint8_t> scale = {130};  // 8
  const LinearWeight weight =
      fp4_weight(view(packed, DType::kI8, {1, 16}), view(scale, DType::kF8E8M0, {1, 1}));
  std::vector<float> row(32);
  decode_row(weight, 0, row.data());
  const float expected[] = {0.5F, 1, -1, 6, 0, -0.0F, 1.5F, -6};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(row[i], 8 * expected[i]) << i;
  EXPECT_TRUE(std::signbit(row[5]));
}

TEST(Weights, TakesTheFp8ScaleOfTheTile) {
  // 40 x 70: tiles of 2 x 3, the last ones cut.
  std::vector<std::uint8_t> codes(40 * 70, 0x38);  // 1.0
  const std::vector<std::uint8_t> scales = {127, 128, 129, 130, 131, 132};
  const LinearWeight weight =
      fp8_weight(view(codes, DType::kF8E4M3, {40, 70}), view(scales, DType::kF8E8M0, {2, 3}));
  std::vector<float> row(70);
  decode_row(weight, 31, row.data());
  EXPECT_EQ(row[0], 1.0F);
  EXPECT_EQ(row[32], 2.0F);
  EXPECT_EQ(row[69], 4.0F);
  decode_row(weight, 32, row.data());
  EXPECT_EQ(row[31], 8.0F);
  EXPECT_EQ(row[64], 32.0F);
  decode_row(weight.rows_from(32, 8), 0, row.data());
  EXPECT_EQ(row[64], 32.0F);
  EXPECT_THROW(weight.rows_from(8, 8), Error);
}

TEST(Weights, ReadsUnalignedBf16) {
  std::vector<std::uint8_t> bytes = {0xff, 0x80, 0x3f, 0x00, 0xc0};  // starts at an odd address
  TensorView unaligned = view(bytes, DType::kBF16, {1, 2});
  unaligned.data += 1;
  std::vector<float> row(2);
  decode_row(plain_weight(unaligned), 0, row.data());
  EXPECT_EQ(row[0], 1.0F);
  EXPECT_EQ(row[1], -2.0F);
}

TEST(Weights, RefusesAScaleOfTheWrongShape) {
  const std::vector<std::uint8_t> bytes(64 * 64);
  EXPECT_THROW(
      fp8_weight(view(bytes, DType::kF8E4M3, {64, 64}), view(bytes, DType::kF8E8M0, {1, 2})),
      Error);
  EXPECT_THROW(fp4_weight(view(bytes, DType::kI8, {64, 64}), view(bytes, DType::kF8E8M0, {64, 2})),
               Error);
}

}  // namespace
}  // namespace deepinfer
