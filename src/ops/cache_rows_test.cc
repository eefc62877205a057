#include "ops/cache_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/dtype.h"

namespace deepinfer {
namespace {

std::vector<float> round_trip(RecordFormat format, const std::vector<float>& x,
                              std::vector<std::uint8_t>* bytes = nullptr) {
  std::vector<std::byte> record(
      static_cast<std::size_t>(record_bytes(format, static_cast<std::int64_t>(x.size()))));
  encode_record(format, x, record.data());
  if (bytes != nullptr) {
    for (const std::byte byte : record) bytes->push_back(static_cast<std::uint8_t>(byte));
  }
  std::vector<float> out(x.size());
  decode_record(format, record.data(), out);
  return out;
}

TEST(CacheRows, EncodesTheWorkedFp8Example) {
  std::vector<float> x(32, 0.0F);
  x[0] = 3.0F;
  x[1] = -1.1F;
  x[2] = 0.02F;
  x[3] = 0.5F;
  std::vector<std::uint8_t> bytes;
  const std::vector<float> out = round_trip(RecordFormat::kFp8Group32, x, &bytes);
  EXPECT_EQ(bytes[0], 0x7c);
  EXPECT_EQ(bytes[1], 0xf1);
  EXPECT_EQ(bytes[2], 0x42);
  EXPECT_EQ(bytes[3], 0x68);
  EXPECT_EQ(bytes[32], 120);
  EXPECT_EQ(out[1], -1.125F);
  EXPECT_EQ(out[2], 0.01953125F);
  // An all-zero group has exponent -22.
  std::vector<std::uint8_t> zero;
  round_trip(RecordFormat::kFp8Group32, std::vector<float>(32, 0.0F), &zero);
  EXPECT_EQ(zero[32], 105);
}

TEST(CacheRows, EncodesTheWorkedFp4ExampleWithE4M3Scale) {
  std::vector<float> x(16, 0.0F);
  x[0] = 2.9F;
  x[1] = -1.3F;
  x[2] = 0.7F;
  x[3] = 0.1F;
  std::vector<std::uint8_t> bytes;
  const std::vector<float> out = round_trip(RecordFormat::kFp4Group16E4M3, x, &bytes);
  EXPECT_EQ(bytes[0], 0xd7);
  EXPECT_EQ(bytes[1], 0x03);
  EXPECT_EQ(bytes[8], 0x2f);
  EXPECT_EQ(out[0], 2.8125F);
  EXPECT_EQ(out[1], -1.40625F);
  EXPECT_EQ(out[2], 0.703125F);
  EXPECT_EQ(out[3], 0.0F);
}

TEST(CacheRows, KeepsAnExactPowerOfTwoInTheFp4Exponent) {
  for (const auto& [amax, scale] : {std::pair{0.9F, 125}, {0.75F, 124}, {0.76F, 125}}) {
    std::vector<float> x(32, 0.0F);
    x[31] = amax;
    std::vector<std::uint8_t> bytes;
    round_trip(RecordFormat::kFp4Group32, x, &bytes);
    EXPECT_EQ(bytes[16], scale) << amax;
  }
}

TEST(CacheRows, ErrsByAtMostHalfAStepOfTheFormat) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const RecordFormat format : {RecordFormat::kFp8Group32, RecordFormat::kFp4Group16E4M3,
                                    RecordFormat::kFp4Group32, RecordFormat::kF32}) {
    // E4M3 keeps 4 significant bits; E2M1's widest gap is 4..6 at a scale of at most amax / 3.
    const float tolerance = format == RecordFormat::kF32          ? 0.0F
                            : format == RecordFormat::kFp8Group32 ? 1.0F / 16
                                                                  : 1.0F / 3;
    for (int round = 0; round < 200; ++round) {
      std::vector<float> x(64);
      const float magnitude = std::ldexp(1.0F, round % 12 - 6);
      for (float& value : x) value = normal(random) * magnitude;
      float amax = 0;
      for (const float value : x) amax = std::max(amax, std::fabs(value));
      const std::vector<float> out = round_trip(format, x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_LE(std::fabs(out[i] - x[i]), tolerance * amax) << to_string(DType::kF32) << i;
      }
    }
  }
}

TEST(CacheRows, HasTheRecordSizesOfTheReleasedModel) {
  EXPECT_EQ(record_bytes(RecordFormat::kFp8Group32, 512), 528);
  EXPECT_EQ(record_bytes(RecordFormat::kFp4Group16E4M3, 512), 288);
  EXPECT_EQ(record_bytes(RecordFormat::kFp4Group32, 128), 68);
}

TEST(CacheRows, FindsEntriesThroughTheBlockTable) {
  const std::vector<std::int32_t> table = {5, 2, 0, 9, 4, 0};
  PagedRows paged;
  paged.rows_per_block = 8;
  paged.block_table = table;
  paged.max_blocks = 3;
  EXPECT_EQ(paged.row_of(0, 3), 43);
  EXPECT_EQ(paged.row_of(0, 9), 17);
  EXPECT_EQ(paged.row_of(1, 15), 39);
}

}  // namespace
}  // namespace deepinfer
