#include "sampling/token_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/math.h"
#include "sampling/golden_rows.h"
#include "sampling/logit_edits.h"

namespace deepinfer {
namespace {

using nlohmann::json;

FilterParams golden_params(const json& test) {
  FilterParams params;
  params.temperature = test.at("temperature").get<float>();
  params.top_p = test.at("top_p").get<float>();
  params.top_k = test.at("top_k").get<std::int64_t>();
  params.min_p = test.at("min_p").get<float>();
  params.force_topk = test.at("force_topk").get<std::int64_t>();
  return params;
}

/// Owns what LogitEdits views.
struct GoldenEdits {
  std::vector<std::vector<TokenId>> lists;
  std::vector<std::pair<TokenId, float>> bias;
  LogitEdits edits;

  explicit GoldenEdits(const json& test) {
    lists.reserve(8);  // views into it must stay valid
    const json masks = test.value("masks", json::object());
    const json penalties = test.value("penalties", json::object());
    const auto list = [&](const json& from, const char* key) {
      lists.push_back(from.value(key, std::vector<TokenId>()));
      return std::span<const TokenId>(lists.back());
    };
    edits.banned[0] = list(masks, "grammar_banned");
    edits.banned[1] = list(masks, "blacklist");
    if (masks.contains("eos_banned")) {
      lists.push_back({masks["eos_banned"].get<TokenId>()});
      edits.banned[2] = lists.back();
    }
    if (masks.contains("allowed")) edits.allowed = list(masks, "allowed");
    for (const auto& item : test.value("logit_bias", json::array())) {
      bias.emplace_back(item[0].get<TokenId>(), golden_float(item[1]));
    }
    edits.bias = bias;
    edits.repetition = penalties.value("repetition", 1.0F);
    edits.frequency = penalties.value("frequency", 0.0F);
    edits.presence = penalties.value("presence", 0.0F);
    edits.prompt = list(penalties, "prompt");
    edits.output = list(penalties, "output");
    edits.drafts = list(penalties, "drafts_before");
  }
};

void expect_logp(float value, const json& expected, const std::string& name) {
  const float golden = golden_float(expected);
  EXPECT_NEAR(value, golden, 3e-6 + 3e-7 * std::fabs(golden)) << name;
}

TEST(TokenFilter, RowsEqualGolden) {
  const json golden = read_sampler_golden("filter.json");
  ASSERT_EQ(golden.at("rows").size(), 61U);
  TokenFilter filter;  // one for all rows: nothing may leak from row to row
  LogitEditor editor;
  for (const auto& test : golden.at("rows")) {
    const auto name = test.at("name").get<std::string>();
    std::vector<float> logits = golden_logits(test);
    editor.apply(GoldenEdits(test).edits, logits);
    if (test.contains("error")) {
      EXPECT_THROW(filter.apply(logits, golden_params(test)), Error) << name;
      continue;
    }
    filter.apply(logits, golden_params(test));
    EXPECT_EQ(filter.argmax(), test.at("argmax").get<TokenId>()) << name;

    std::vector<TokenId> kept;
    for (std::size_t i = 0; i < filter.logp().size(); ++i) {
      if (std::isfinite(filter.logp()[i])) kept.push_back(filter.token_of(i));
    }
    if (test.contains("kept")) {
      // Rows of `exact_only` sit on a boundary and need a correctly rounded exp; keep_prefix has
      // its own exact cases.
      if (!test.contains("exact_only")) {
        EXPECT_EQ(kept, test["kept"].get<std::vector<TokenId>>()) << name;
        for (std::size_t i = 0; i < kept.size(); ++i) {
          expect_logp(filter.logp_of(kept[i]), test["logp"].at(i), name);
        }
      }
    } else {
      EXPECT_EQ(kept.size(), test.at("kept_count").get<std::size_t>()) << name;
      std::uint64_t sum = 0;
      std::uint32_t squares = 0;
      for (const TokenId id : kept) {
        sum += static_cast<std::uint64_t>(id);
        squares += static_cast<std::uint32_t>(id) * static_cast<std::uint32_t>(id);
      }
      EXPECT_EQ(sum, test.at("kept_sum").get<std::uint64_t>()) << name;
      EXPECT_EQ(squares, test.at("kept_square_sum_mod_2_32").get<std::uint32_t>()) << name;
      for (std::size_t i = 0; i < test["sample_ids"].size(); ++i) {
        expect_logp(filter.logp_of(test["sample_ids"][i].get<TokenId>()), test["sample_logp"][i],
                    name);
      }
    }
  }
}

TEST(TokenFilter, PrefixRuleOnIntegersEqualsGolden) {
  const json golden = read_sampler_golden("filter.json");
  ASSERT_EQ(golden.at("mass_rows").size(), 11U);
  for (const auto& test : golden.at("mass_rows")) {
    std::vector<std::int32_t> kept;
    keep_prefix(golden_floats(test["keys"]), test["mass"].get<std::vector<std::uint32_t>>(),
                test["top_p"].get<float>(), test["top_k"].get<std::int64_t>(), kept);
    EXPECT_EQ(kept, test["kept"].get<std::vector<std::int32_t>>()) << test["name"];
  }
}

TEST(TokenFilter, PrefixRuleHoldsAcrossSortedPieces) {
  // 3,000 columns of equal mass in shuffled order: the prefix is longer than the first pieces.
  std::vector<float> keys;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    keys.push_back(static_cast<float>(rule_integer(3, i) % 1000));
  }
  const std::vector<std::uint32_t> mass(keys.size(), 700000);
  for (const float top_p : {0.01F, 0.3F, 0.5F, 0.9F}) {
    std::vector<std::int32_t> order(keys.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return keys[static_cast<std::size_t>(a)] > keys[static_cast<std::size_t>(b)];
    });
    const auto target = static_cast<std::uint64_t>(static_cast<double>(top_p) * 0x1p31) + 1;
    order.resize(std::min<std::size_t>(order.size(), (target + 699999) / 700000));
    std::sort(order.begin(), order.end());
    std::vector<std::int32_t> kept;
    keep_prefix(keys, mass, top_p, -1, kept);
    EXPECT_EQ(kept, order) << top_p;
  }
}

TEST(TokenFilter, ProbabilitiesSumToOneAndRowsAreIndependent) {
  TokenFilter filter;
  TokenFilter fresh;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const std::vector<float> row =
        rule_logits({{"seed", seed}, {"width", 1 + seed * 37}, {"overrides", json::array()}});
    FilterParams params;
    params.temperature = 0.3F + 0.05F * static_cast<float>(seed);
    params.top_p = seed % 2 == 0 ? 1.0F : 0.8F;
    params.top_k = seed % 3 == 0 ? 20 : -1;
    params.min_p = seed % 5 == 0 ? 0.01F : 0.0F;
    filter.apply(row, params);
    double sum = 0;
    for (const float logp : filter.logp()) sum += std::exp(static_cast<double>(logp));
    EXPECT_NEAR(sum, 1.0, 1e-5) << seed;
    TokenFilter other;
    other.apply(row, params);
    EXPECT_TRUE(std::equal(other.logp().begin(), other.logp().end(), filter.logp().begin(),
                           filter.logp().end()));
  }
}

TEST(RawNormalizer, GivesTheLogSoftmax) {
  std::vector<float> scratch;
  const std::vector<float> row = {1.0F, 2.0F, -3.0F, 0.5F};
  double sum = 0;
  for (const float value : row) sum += std::exp(static_cast<double>(value));
  const RawNormalizer normalizer = raw_normalizer(row, scratch);
  for (const float value : row) {
    EXPECT_NEAR(normalizer.logp(value), static_cast<double>(value) - std::log(sum), 1e-6);
  }
}

}  // namespace
}  // namespace deepinfer
