#include "model/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace deepinfer {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::uint8_t>;

std::string checkpoint_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    return error.what();
  }
  return "no error";
}

TEST(Weights, RefuseANanScaleWhenAnExpertIsFirstUsed) {
  const Bytes codes(32 * 16, 0x22);
  const Bytes good(32, 127);
  Bytes bad = good;
  bad[31] = 255;
  const auto weight = [&](const Bytes& scale) {
    return LinearWeight{WeightFormat::kFp4Group32, reinterpret_cast<const std::byte*>(codes.data()),
                        scale.data(), 32, 32};
  };
  const std::vector<ExpertWeights> experts = {{weight(good), weight(good), weight(good)},
                                              {weight(good), weight(good), weight(bad)}};
  MappedExperts residency(7, experts);
  residency.require(std::vector<std::int32_t>{0});
  EXPECT_THAT(checkpoint_error([&] { residency.require(std::vector<std::int32_t>{0, 1}); }),
              HasSubstr("layers.7.ffn.experts.1: a scale byte is 255"));
}

TEST(Weights, RefuseAnEngramRowWithANanScaleAndReadTheOthers) {
  const Bytes codes(3 * 64, 0x38);  // 1.0
  Bytes scales = {127, 128, 127, 255, 126, 126};
  const StoredEngramTable table(
      {reinterpret_cast<const std::byte*>(codes.data()), DType::kF8E4M3, Shape{3, 64}},
      {reinterpret_cast<const std::byte*>(scales.data()), DType::kF8E8M0, Shape{3, 2}});
  std::vector<float> out(2 * 64);
  table.read(std::vector<std::int64_t>{2, 0}, out.data());
  EXPECT_EQ(out[0], 0.5F);
  EXPECT_EQ(out[64], 1.0F);
  EXPECT_EQ(out[64 + 32], 2.0F);
  EXPECT_THAT(checkpoint_error([&] { table.read(std::vector<std::int64_t>{1}, out.data()); }),
              HasSubstr("row 1 is 255"));
  EXPECT_THROW(table.read(std::vector<std::int64_t>{3}, out.data()), Error);
}

}  // namespace
}  // namespace deepinfer
