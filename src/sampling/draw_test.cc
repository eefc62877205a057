#include "sampling/draw.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/philox.h"
#include "sampling/golden_rows.h"
#include "sampling/token_filter.h"

namespace deepinfer {
namespace {

using nlohmann::json;

std::uint64_t decimal(const json& text) { return std::stoull(text.get<std::string>()); }
std::uint32_t hexadecimal(const json& text) {
  return static_cast<std::uint32_t>(std::stoul(text.get<std::string>(), nullptr, 16));
}

TEST(Draw, PhiloxOutputsEqualGolden) {
  const json golden = read_sampler_golden("draws.json");
  for (const auto& test : golden.at("philox_raw")) {
    std::array<std::uint32_t, 4> counter{};
    std::array<std::uint32_t, 2> key{};
    for (std::size_t i = 0; i < 4; ++i) counter[i] = hexadecimal(test["counter"][i]);
    for (std::size_t i = 0; i < 2; ++i) key[i] = hexadecimal(test["key"][i]);
    const auto out = philox4x32_10(counter, key);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(out[i], hexadecimal(test["out"][i]));
  }
  for (const auto& test : golden.at("philox")) {
    PhiloxStream stream(decimal(test["seed"]), decimal(test["sub"]));
    for (const auto& word : test["out"]) EXPECT_EQ(stream.next(), hexadecimal(word));
  }
}

TEST(Draw, SubsequencesEqualGolden) {
  const json golden = read_sampler_golden("draws.json");
  ASSERT_EQ(golden.at("positions").size(), 10U);
  for (const auto& test : golden.at("positions")) {
    const auto position = test["position"].get<std::int64_t>();
    for (int draw_case = 0; draw_case < 3; ++draw_case) {
      EXPECT_EQ(draw_subsequence(position, static_cast<DrawCase>(draw_case)),
                decimal(test["sub"][static_cast<std::size_t>(draw_case)]))
          << position;
    }
  }
}

TEST(Draw, TokensOfIntegerWeightsEqualGolden) {
  const json golden = read_sampler_golden("draws.json");
  ASSERT_EQ(golden.at("draws").size(), 19U);
  for (const auto& test : golden.at("draws")) {
    std::vector<std::uint32_t> weights;
    if (test.contains("weights")) {
      for (const auto& weight : test["weights"]) weights.push_back(weight.get<std::uint32_t>());
    } else {
      const json& rule = test.at("weights_rule");
      for (std::uint64_t i = 0; i < rule["width"].get<std::uint64_t>(); ++i) {
        const std::uint32_t n = rule_integer(rule["seed"].get<std::uint64_t>(), i);
        weights.push_back(n % rule["every"].get<std::uint32_t>() == 0
                              ? n >> rule["shift"].get<std::uint32_t>()
                              : 0U);
      }
    }
    for (std::size_t i = 0; i < test["positions"].size(); ++i) {
      int used = 0;
      const auto token =
          draw_from_weights(weights, decimal(test["seed"]),
                            draw_subsequence(test["positions"][i].get<std::int64_t>(),
                                             static_cast<DrawCase>(test["case"].get<int>())),
                            &used);
      EXPECT_EQ(token, test["tokens"][i].get<std::int64_t>()) << test["name"] << " " << i;
      EXPECT_EQ(used, test["outputs_used"][i].get<int>()) << test["name"] << " " << i;
    }
  }
}

TEST(Draw, NothingIsDrawnFromZeroWeights) {
  const std::vector<std::uint32_t> weights(7, 0);
  EXPECT_EQ(draw_from_weights(weights, 1, 2), -1);
  EXPECT_EQ(draw_from_weights({}, 1, 2), -1);
}

TEST(Draw, ZeroWeightTokensAreNeverDrawn) {
  const std::vector<std::uint32_t> weights = {0, 3, 0, 0, 5, 0};
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const auto token = draw_from_weights(weights, seed, 30);
    EXPECT_TRUE(token == 1 || token == 4) << seed;
  }
}

TEST(Draw, FrequenciesMatchWeights) {
  // Chi-square over 4 categories, 3 degrees of freedom: 16.3 is the 0.999 quantile.
  const std::vector<std::uint32_t> weights = {1U << 28, 1U << 29, 1U << 30, 1U << 28};
  double counts[4] = {};
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    ++counts[draw_from_weights(weights, 11, draw_subsequence(i, DrawCase::kOrdinary))];
  }
  double chi_square = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const double expected = kDraws * static_cast<double>(weights[i]) * 0x1p-31;
    chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  EXPECT_LT(chi_square, 16.3);
}

TEST(Draw, AcceptanceUniformsEqualGolden) {
  const json golden = read_sampler_golden("draws.json");
  ASSERT_EQ(golden.at("uniforms").size(), 17U);
  for (const auto& test : golden.at("uniforms")) {
    const float u = acceptance_uniform(hexadecimal(test["x"]));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(u), hexadecimal(test["u_bits"]));
  }
}

/// One float32 ulp, or 1e-12 near zero.
void expect_noise(float noise, std::uint32_t bits) {
  const auto expected = std::bit_cast<float>(bits);
  const float ulp = std::nextafter(std::fabs(expected), INFINITY) - std::fabs(expected);
  EXPECT_NEAR(noise, expected, std::max(static_cast<double>(ulp), 1e-12));
}

TEST(CoupledDraw, NoiseEqualsGolden) {
  const json golden = read_sampler_golden("coupled.json");
  for (const auto& test : golden.at("words")) {
    expect_noise(gumbel_noise(hexadecimal(test["word"])), hexadecimal(test["g_bits"]));
  }
  for (const auto& test : golden.at("noise")) {
    for (std::size_t i = 0; i < test["ids"].size(); ++i) {
      const std::uint32_t word =
          coupled_word(decimal(test["seed"]), test["position"].get<std::int64_t>(),
                       test["ids"][i].get<TokenId>());
      EXPECT_EQ(word, hexadecimal(test["words"][i]));
      expect_noise(gumbel_noise(word), hexadecimal(test["g_bits"][i]));
    }
  }
}

TEST(CoupledDraw, TokensEqualGolden) {
  const json golden = read_sampler_golden("coupled.json");
  ASSERT_EQ(golden.at("draws").size(), 9U);
  for (const auto& test : golden.at("draws")) {
    TokenFilter filter;
    std::vector<float> logp;
    if (test.contains("rule")) {
      FilterParams params;
      params.temperature = test["temperature"].get<float>();
      params.top_k = test.value("top_k", -1);
      filter.apply(rule_logits(test["rule"]), params);
      logp.assign(filter.logp().begin(), filter.logp().end());
    } else {
      logp = golden_floats(test["logp"]);
    }
    for (std::size_t i = 0; i < test["tokens"].size(); ++i) {
      const auto token = draw_coupled(logp, {}, decimal(test["seed_position"][i][0]),
                                      test["seed_position"][i][1].get<std::int64_t>());
      EXPECT_EQ(token, test["tokens"][i].get<std::int64_t>()) << test["name"] << " " << i;
    }
  }
}

TEST(CoupledDraw, SelectedColumnsKeepTheirTokensNoise) {
  const std::vector<float> row = {-1.0F, -INFINITY, -1.5F, -2.0F, -INFINITY, -0.5F};
  const std::vector<float> packed = {-1.0F, -1.5F, -2.0F, -0.5F};
  const std::vector<TokenId> columns = {0, 2, 3, 5};
  for (std::int64_t position = 0; position < 200; ++position) {
    const auto column = draw_coupled(packed, columns, 9, position);
    EXPECT_EQ(columns.at(static_cast<std::size_t>(column)), draw_coupled(row, {}, 9, position));
  }
}

}  // namespace
}  // namespace deepinfer
