#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "sampling/golden_rows.h"

namespace deepinfer {
namespace {

std::vector<float> row_of(std::uint64_t seed, std::size_t width) {
  return rule_logits({{"seed", seed}, {"width", width}, {"overrides", nlohmann::json::array()}});
}

TEST(Sampler, TemperatureZeroTakesTheLowestIdOfEqualMaxima) {
  Sampler sampler;
  SampleRow row;
  row.filter.temperature = 0.0F;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    row.seed = seed;
    std::vector<float> logits = {0.0F, 3.0F, 3.0F, -1.0F, 3.0F};
    EXPECT_EQ(sampler.sample(logits, row).token, 1);
  }
}

TEST(Sampler, TopKOneEqualsArgmaxForAnySeed) {
  Sampler sampler;
  SampleRow row;
  row.filter.top_k = 1;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<float> logits = row_of(seed, 300);
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    row.seed = seed * 977;
    row.position = static_cast<std::int64_t>(seed);
    row.draw_mode = seed % 2 == 0 ? DrawMode::kCompat : DrawMode::kCoupled;
    EXPECT_EQ(sampler.sample(logits, row).token, best);
  }
}

TEST(Sampler, ReportsTheProcessedLogProbabilityOfTheDrawnToken) {
  Sampler sampler;
  SampleRow row;
  row.filter.temperature = 0.7F;
  row.filter.top_p = 0.9F;
  row.top_logprobs = 400;
  for (std::int64_t position = 0; position < 50; ++position) {
    std::vector<float> logits = row_of(5, 400);
    row.seed = 3;
    row.position = position;
    const SampledToken result = sampler.sample(logits, row);
    TokenFilter filter;
    filter.apply(row_of(5, 400), row.filter);
    EXPECT_EQ(result.logprob, filter.logp_of(result.token));
    ASSERT_EQ(result.top.size(), 400U);
    EXPECT_EQ(result.top[0].token_id, filter.argmax());
    EXPECT_EQ(result.top.back().logprob, kLogprobFloor);
    for (std::size_t i = 1; i < result.top.size(); ++i) {
      EXPECT_LE(result.top[i].logprob, result.top[i - 1].logprob);
    }
  }
}

TEST(Sampler, RawLogProbabilitiesIgnoreEveryEdit) {
  Sampler sampler;
  const std::vector<TokenId> banned = {0, 1, 2};
  SampleRow row;
  row.logprobs_mode = LogprobsMode::kRaw;
  row.filter.temperature = 0.2F;
  row.filter.top_k = 3;
  row.edits.banned[0] = banned;
  row.top_logprobs = 5;
  std::vector<float> logits = {9.0F, 8.0F, 7.0F, 1.0F, 0.5F, 0.25F, -4.0F};
  const std::vector<float> before = logits;
  const SampledToken result = sampler.sample(logits, row);
  EXPECT_GE(result.token, 3);
  double sum = 0;
  for (const float value : before) sum += std::exp(static_cast<double>(value));
  EXPECT_NEAR(result.logprob, before[static_cast<std::size_t>(result.token)] - std::log(sum), 1e-6);
  EXPECT_EQ(result.top[0].token_id, 0);
}

TEST(Sampler, ForcedTokenIsReportedUnderTheProcessedDistribution) {
  Sampler sampler;
  SampleRow row;
  row.forced = 2;
  std::vector<float> logits = {2.0F, 1.0F, 0.0F};
  const SampledToken result = sampler.sample(logits, row);
  EXPECT_EQ(result.token, 2);
  EXPECT_NEAR(result.logprob, -std::log(std::exp(2.0) + std::exp(1.0) + 1.0), 1e-6);
  row.filter.top_k = 1;
  logits = {2.0F, 1.0F, 0.0F};
  EXPECT_EQ(sampler.sample(logits, row).logprob, kLogprobFloor);
}

TEST(Sampler, ForceTopKDrawsAmongTheLargestOnly) {
  Sampler sampler;
  SampleRow row;
  row.filter.force_topk = 4;
  row.seed = 8;
  for (std::int64_t position = 0; position < 100; ++position) {
    std::vector<float> logits(50, 0.0F);
    for (const std::size_t id : {7U, 13U, 21U, 49U}) logits[id] = 0.1F;
    row.position = position;
    row.draw_mode = position % 2 == 0 ? DrawMode::kCompat : DrawMode::kCoupled;
    const TokenId token = sampler.sample(logits, row).token;
    EXPECT_TRUE(token == 7 || token == 13 || token == 21 || token == 49) << token;
  }
}

TEST(Sampler, FrequenciesMatchProbabilitiesInBothModes) {
  // Probabilities .5 .25 .125 .125; chi-square with 3 degrees of freedom, 0.999 quantile 16.3.
  const std::vector<float> probabilities = {0.5F, 0.25F, 0.125F, 0.125F};
  for (const DrawMode mode : {DrawMode::kCompat, DrawMode::kCoupled}) {
    Sampler sampler;
    SampleRow row;
    row.draw_mode = mode;
    row.seed = 12345;
    double counts[4] = {};
    constexpr int kDraws = 20000;
    for (int i = 0; i < kDraws; ++i) {
      std::vector<float> logits;
      for (const float p : probabilities) logits.push_back(std::log(p));
      row.position = i;
      ++counts[sampler.sample(logits, row).token];
    }
    double chi_square = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const double expected = kDraws * static_cast<double>(probabilities[i]);
      chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    EXPECT_LT(chi_square, 16.3);
  }
}

TEST(Sampler, RowWithoutAnyTokenIsAnError) {
  Sampler sampler;
  std::vector<float> logits(4, -INFINITY);
  EXPECT_THROW(sampler.sample(logits, SampleRow{}), Error);
}

TEST(Sampler, ScoresAreRawLogProbabilities) {
  Sampler sampler;
  const std::vector<float> logits = {1.0F, 3.0F, 2.0F};
  const SampledToken result = sampler.score(logits, 2, 2);
  const double log_sum = std::log(std::exp(1.0) + std::exp(3.0) + std::exp(2.0));
  EXPECT_NEAR(result.logprob, 2.0 - log_sum, 1e-6);
  ASSERT_EQ(result.top.size(), 2U);
  EXPECT_EQ(result.top[0].token_id, 1);
  EXPECT_EQ(result.top[1].token_id, 2);
}

}  // namespace
}  // namespace deepinfer
