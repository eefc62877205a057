#include "base/math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

namespace deepinfer {
namespace {

std::int64_t ulps_apart(float a, float b) {
  return std::llabs(static_cast<std::int64_t>(std::bit_cast<std::int32_t>(a)) -
                    static_cast<std::int64_t>(std::bit_cast<std::int32_t>(b)));
}

TEST(Math, ExpIsWithinOneUlpOfTheRoundedTruth) {
  for (float x = -87.3F; x < 88.3F; x += 0.00137F) {
    const auto truth = static_cast<float>(std::exp(static_cast<double>(x)));
    ASSERT_LE(ulps_apart(exp_f32(x), truth), 1) << x;
  }
  EXPECT_EQ(exp_f32(0.0F), 1.0F);
  EXPECT_EQ(exp_f32(-0.0F), 1.0F);
}

TEST(Math, ExpHasDefinedEdges) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exp_f32(-infinity), 0.0F);
  EXPECT_EQ(exp_f32(-88.0F), 0.0F);
  EXPECT_EQ(exp_f32(infinity), infinity);
  EXPECT_TRUE(std::isnan(exp_f32(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Math, LogMatchesTheLibraryOverTheWholeRange) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    const double x = std::ldexp(1.0 + static_cast<double>(random() >> 12) * 0x1p-52,
                                static_cast<int>(random() % 2040) - 1020);
    ASSERT_NEAR(log_f64(x), std::log(x), 4e-16 * std::fabs(std::log(x))) << x;
  }
  for (double x = 0.5; x < 2.0; x += 0.0001) {
    ASSERT_NEAR(log_f64(x), std::log(x), 4e-16 * std::fabs(std::log(x)) + 1e-300) << x;
  }
  EXPECT_EQ(log_f64(1.0), 0.0);
  EXPECT_NEAR(log_f64(5e-324), std::log(5e-324), 1e-12);
  EXPECT_TRUE(std::isinf(log_f64(0.0)));
  EXPECT_TRUE(std::isnan(log_f64(-1.0)));
}

TEST(Math, Log1pKeepsSmallArguments) {
  for (double x = 1e-300; x < 1e10; x *= 1.7) {
    ASSERT_NEAR(log1p_f64(x), std::log1p(x), 1e-15 * std::log1p(x)) << x;
  }
}

TEST(Math, ExpDoubleMatchesTheLibrary) {
  for (double x = -700; x < 700; x += 0.0371) {
    ASSERT_NEAR(exp_f64(x), std::exp(x), 4e-16 * std::exp(x)) << x;
  }
}

TEST(Math, SineAndCosineAreAccurateForLargeAngles) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> wide(-2e6, 2e6);
  for (int i = 0; i < 200000; ++i) {
    const double x = i < 1000 ? i * 0.01 : wide(random);
    const SinCos got = sincos_f64(x);
    ASSERT_NEAR(got.sin, std::sin(x), 1e-15) << x;
    ASSERT_NEAR(got.cos, std::cos(x), 1e-15) << x;
  }
}

TEST(Math, DotFollowsTheSixteenPartialSums) {
  // Values chosen so that any other order rounds differently: partial sum 0 absorbs 2^24 first.
  std::vector<float> a(33, 1.0F);
  std::vector<float> b(33, 1.0F);
  a[0] = 0x1p24F;
  // Lane 0 holds 2^24 + 1 + 1 added one by one, each lost to rounding; lanes 1..15 hold 2 each.
  EXPECT_EQ(dot16(a, b), 0x1p24F + 30.0F);
  EXPECT_EQ(sum16(std::vector<float>{}), 0.0F);
}

}  // namespace
}  // namespace deepinfer
