#include "base/dtype.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace deepinfer {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// E4M3 by its definition, with the library's powers.
double e4m3_by_definition(int code) {
  const int exponent = (code >> 3) & 15;
  const int mantissa = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (code & 128) != 0 ? -magnitude : magnitude;
}

/// The nearest code by search over all of them; a tie goes to the even code.
template <typename Decode>
int nearest_code(double value, int codes_per_sign, const Decode& decode) {
  const double magnitude = std::fabs(value);
  int best = 0;
  for (int code = 1; code < codes_per_sign; ++code) {
    const double better = std::fabs(decode(best) - magnitude) - std::fabs(decode(code) - magnitude);
    if (better > 0 || (better == 0 && code % 2 == 0)) best = code;
  }
  return std::signbit(value) ? best + (codes_per_sign == 8 ? 8 : 128) : best;
}

TEST(E4m3, DecodesAllCodesByDefinition) {
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_to_float(static_cast<std::uint8_t>(code));
    if ((code & 127) == 127) {
      EXPECT_TRUE(std::isnan(value)) << code;
      continue;
    }
    EXPECT_EQ(static_cast<double>(value), e4m3_by_definition(code)) << code;
    EXPECT_EQ(std::signbit(value), code >= 128) << code;
  }
  EXPECT_EQ(e4m3_to_float(0x7e), 448.0F);
  EXPECT_EQ(e4m3_to_float(0x01), 0x1p-9F);
}

TEST(E4m3, EncodingADecodedCodeGivesTheCode) {
  for (int code = 0; code < 256; ++code) {
    if ((code & 127) == 127) continue;
    EXPECT_EQ(float_to_e4m3(e4m3_to_float(static_cast<std::uint8_t>(code))), code);
  }
}

TEST(E4m3, RoundsMidpointsToTheEvenCodeAndTheirNeighboursToTheNearest) {
  for (int code = 0; code < 126; ++code) {
    const auto low = static_cast<float>(e4m3_by_definition(code));
    const auto high = static_cast<float>(e4m3_by_definition(code + 1));
    const float middle = (low + high) / 2;
    const int even = code % 2 == 0 ? code : code + 1;
    EXPECT_EQ(float_to_e4m3(middle), even) << code;
    EXPECT_EQ(float_to_e4m3(-middle), even + 128) << code;
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, 0.0F)), code);
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, kInfinity)), code + 1);
  }
}

TEST(E4m3, EqualsASearchOverAllCodes) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponent(-14.0, 9.5);
  for (int i = 0; i < 20000; ++i) {
    const auto value =
        static_cast<float>(std::exp2(exponent(random)) * ((random() & 1U) != 0 ? 1 : -1));
    EXPECT_EQ(float_to_e4m3(value), nearest_code(value, 127, e4m3_by_definition)) << value;
  }
}

TEST(E4m3, SaturatesAndKeepsNan) {
  EXPECT_EQ(float_to_e4m3(449.0F), 0x7e);
  EXPECT_EQ(float_to_e4m3(464.0F), 0x7e);
  EXPECT_EQ(float_to_e4m3(1e30F), 0x7e);
  EXPECT_EQ(float_to_e4m3(kInfinity), 0x7e);
  EXPECT_EQ(float_to_e4m3(-kInfinity), 0xfe);
  EXPECT_EQ(float_to_e4m3(kNan) & 0x7f, 0x7f);
  EXPECT_EQ(float_to_e4m3(-0.0F), 0x80);
  EXPECT_EQ(float_to_e4m3(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(E2m1, DecodesAllCodes) {
  const std::array<float, 8> magnitudes{0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  for (int code = 0; code < 16; ++code) {
    const float value = e2m1_to_float(static_cast<std::uint8_t>(code));
    EXPECT_EQ(std::fabs(value), magnitudes[static_cast<std::size_t>(code & 7)]);
    EXPECT_EQ(std::signbit(value), code >= 8);
    EXPECT_EQ(float_to_e2m1(value), code);
  }
}

TEST(E2m1, RoundsMidpointsAsTheSpecificationLists) {
  // Midpoints 0.25, 1.25, 2.5, 5 go down; 0.75, 1.75, 3.5 go up (model.md 4.5).
  const std::vector<std::pair<float, int>> midpoints{{0.25F, 0}, {0.75F, 2}, {1.25F, 2}, {1.75F, 4},
                                                     {2.5F, 4},  {3.5F, 6},  {5.0F, 6}};
  for (std::size_t i = 0; i < midpoints.size(); ++i) {
    const auto [value, code] = midpoints[i];
    EXPECT_EQ(float_to_e2m1(value), code) << value;
    EXPECT_EQ(float_to_e2m1(-value), code + 8) << value;
    EXPECT_EQ(float_to_e2m1(std::nextafter(value, 0.0F)), static_cast<int>(i)) << value;
    EXPECT_EQ(float_to_e2m1(std::nextafter(value, 10.0F)), static_cast<int>(i) + 1) << value;
  }
}

TEST(E2m1, SaturatesAndTurnsNanIntoSix) {
  EXPECT_EQ(float_to_e2m1(6.5F), 7);
  EXPECT_EQ(float_to_e2m1(1e30F), 7);
  EXPECT_EQ(float_to_e2m1(kInfinity), 7);
  EXPECT_EQ(float_to_e2m1(-7.0F), 15);
  EXPECT_EQ(float_to_e2m1(kNan) & 7, 7);
  EXPECT_EQ(float_to_e2m1(-0.0F), 8);
}

TEST(E2m1, PackedBytesDecodeAsTheSpecificationsExample) {
  const std::array<std::uint8_t, 4> bytes{0x21, 0x7a, 0x80, 0xf3};
  const std::array<float, 8> values{0.5F, 1.0F, -1.0F, 6.0F, 0.0F, -0.0F, 1.5F, -6.0F};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto code = static_cast<std::uint8_t>(i % 2 == 0 ? bytes[i / 2] & 15 : bytes[i / 2] >> 4);
    EXPECT_EQ(e2m1_to_float(code), values[i]) << i;
    EXPECT_EQ(std::signbit(e2m1_to_float(code)), std::signbit(values[i])) << i;
  }
}

TEST(E8m0, IsAPowerOfTwoAndNanAtTheEnd) {
  for (int byte = 0; byte < 255; ++byte) {
    EXPECT_EQ(static_cast<double>(e8m0_to_float(static_cast<std::uint8_t>(byte))),
              std::ldexp(1.0, byte - 127));
  }
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
  EXPECT_EQ(e8m0_to_float(127), 1.0F);
  EXPECT_EQ(e8m0_to_float(120), 0.0078125F);
  EXPECT_EQ(e8m0_to_float(130), 8.0F);
}

TEST(E8m0Scale, MatchesTheWorkedExamples) {
  EXPECT_EQ(e8m0_scale_for(3.0F, 448.0F, 1e-4F), 120);
  EXPECT_EQ(e8m0_scale_for(0.0F, 448.0F, 1e-4F), 105);
  const float floor = 6.0F * 0x1p-126F;
  EXPECT_EQ(e8m0_scale_for(0.9F, 6.0F, floor), 125);
  EXPECT_EQ(e8m0_scale_for(0.75F, 6.0F, floor), 124);
  EXPECT_EQ(e8m0_scale_for(0.76F, 6.0F, floor), 125);
}

TEST(E8m0Scale, WorkedGroupQuantizesToTheStatedBytes) {
  // 3.0, -1.1, 0.02, 0.5 with amax 3.0: times 128.
  const std::array<float, 4> values{3.0F, -1.1F, 0.02F, 0.5F};
  const std::array<int, 4> codes{0x7c, 0xf1, 0x42, 0x68};
  const std::array<float, 4> back{3.0F, -1.125F, 0.01953125F, 0.5F};
  const float scale = e8m0_to_float(e8m0_scale_for(3.0F, 448.0F, 1e-4F));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint8_t code = float_to_e4m3(values[i] / scale);
    EXPECT_EQ(code, codes[i]);
    EXPECT_EQ(e4m3_to_float(code) * scale, back[i]);
  }
}

TEST(E8m0Scale, IsTheSmallestPowerThatFitsTheLargestValue) {
  for (const float qmax : {448.0F, 6.0F}) {
    for (int exponent = -12; exponent <= 12; ++exponent) {
      // An exact power of two times qmax keeps its exponent; the next float above needs one more.
      const float exact = std::ldexp(qmax, exponent);
      EXPECT_EQ(e8m0_scale_for(exact, qmax, 1e-30F), exponent + 127);
      EXPECT_EQ(e8m0_scale_for(exact * 1.001F, qmax, 1e-30F), exponent + 128);
      EXPECT_EQ(e8m0_scale_for(exact * 0.999F, qmax, 1e-30F), exponent + 127);
      EXPECT_EQ(e8m0_scale_for(exact * 0.501F, qmax, 1e-30F), exponent + 127);
    }
  }
}

TEST(CompressedKv, WorkedGroupWithE4m3ScaleQuantizesToTheStatedBytes) {
  // model.md 4.5: amax 2.9, scale byte 0x2F = 0.46875.
  const float amax = 2.9F;
  const std::uint8_t scale = float_to_e4m3(std::fmin(amax * (1.0F / 6.0F), 448.0F));
  EXPECT_EQ(scale, 0x2f);
  const float inverse = 1.0F / e4m3_to_float(scale);
  const std::array<float, 4> values{2.9F, -1.3F, 0.7F, 0.1F};
  const std::array<int, 4> codes{7, 13, 3, 0};
  const std::array<float, 4> back{2.8125F, -1.40625F, 0.703125F, 0.0F};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint8_t code = float_to_e2m1(values[i] * inverse);
    EXPECT_EQ(code, codes[i]);
    EXPECT_EQ(e2m1_to_float(code) * e4m3_to_float(scale), back[i]);
  }
  EXPECT_EQ(float_to_e4m3(6.0F * 0x1p-9F * (1.0F / 6.0F)), 1);
}

TEST(Bf16, RoundTripsAllCodesAndRoundsToEven) {
  for (int code = 0; code < 65536; ++code) {
    const auto bits = static_cast<std::uint16_t>(code);
    const float value = bf16_to_float(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(value))));
    } else {
      EXPECT_EQ(float_to_bf16(value), bits);
    }
  }
  const auto rounded = [](std::uint32_t bits) { return float_to_bf16(std::bit_cast<float>(bits)); };
  EXPECT_EQ(rounded(0x3f808000U), 0x3f80);  // half way, even below
  EXPECT_EQ(rounded(0x3f818000U), 0x3f82);  // half way, even above
  EXPECT_EQ(rounded(0x3f808001U), 0x3f81);
  EXPECT_EQ(rounded(0x7f7fffffU), 0x7f80);  // the largest float rounds to infinity
  EXPECT_EQ(rounded(0x7f800001U) & 0x7fc0, 0x7fc0);
}

TEST(DTypes, HaveTheTagsAndSizesOfTheFileFormat) {
  EXPECT_EQ(to_string(DType::kF8E4M3), "F8_E4M3");
  EXPECT_EQ(to_string(DType::kF8E8M0), "F8_E8M0");
  EXPECT_EQ(to_string(DType::kBF16), "BF16");
  EXPECT_EQ(to_string(DType::kI8), "I8");
  EXPECT_EQ(size_of(DType::kI64), 8U);
  EXPECT_EQ(size_of(DType::kBF16), 2U);
  EXPECT_EQ(size_of(DType::kI8), 1U);
}

}  // namespace
}  // namespace deepinfer
