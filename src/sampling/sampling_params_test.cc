#include "deepinfer/sampling_params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/error.h"

namespace deepinfer {
namespace {

using ::testing::HasSubstr;

TEST(SamplingParams, DefaultsAreValid) { SamplingParams().validate(); }

TEST(SamplingParams, BoundaryValuesAreValid) {
  SamplingParams params;
  params.temperature = 0.0;
  params.top_p = 1e-9;
  params.top_k = 2147483647;
  params.max_tokens = 0;
  params.top_logprobs = 1000;
  params.min_p = 1.0;
  params.n = 128;
  params.logit_bias = {{3, -std::numeric_limits<double>::infinity()}};
  params.golden_token_ids = {-1, 5};
  params.validate();
}

TEST(SamplingParams, ErrorsNameFieldAndValue) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    std::function<void(SamplingParams&)> change;
    std::string field, value;
  };
  const std::vector<Case> cases = {
      {[](auto& p) { p.temperature = -0.5; }, "temperature", "-0.5"},
      {[=](auto& p) { p.temperature = nan; }, "temperature", "nan"},
      {[](auto& p) { p.temperature = 1e39; }, "temperature", "1e+39"},
      {[](auto& p) { p.top_p = 0.0; }, "top_p", "0"},
      {[](auto& p) { p.top_p = 1.25; }, "top_p", "1.25"},
      {[](auto& p) { p.top_k = 0; }, "top_k", "0"},
      {[](auto& p) { p.top_k = -2; }, "top_k", "-2"},
      {[](auto& p) { p.top_k = 2147483648; }, "top_k", "2147483648"},
      {[](auto& p) { p.max_tokens = -1; }, "max_tokens", "-1"},
      {[](auto& p) { p.min_tokens = 17; }, "min_tokens", "17"},
      {[](auto& p) { p.top_logprobs = 1001; }, "top_logprobs", "1001"},
      {[](auto& p) { p.first_n_token_no_eos = -1; }, "first_n_token_no_eos", "-1"},
      {[](auto& p) { p.min_p = 1.5; }, "min_p", "1.5"},
      {[](auto& p) { p.repetition_penalty = 0; }, "repetition_penalty", "0"},
      {[](auto& p) { p.repetition_penalty = 1e-300; }, "repetition_penalty", "1e-300"},
      {[](auto& p) { p.logit_bias = {{1, 1e308}}; }, "logit_bias", "1e+308"},
      {[](auto& p) { p.presence_penalty = 2.5; }, "presence_penalty", "2.5"},
      {[](auto& p) { p.frequency_penalty = -2.5; }, "frequency_penalty", "-2.5"},
      {[](auto& p) { p.n = 0; }, "n must", "0"},
      {[](auto& p) { p.stop = {"a", ""}; }, "stop", "empty"},
      {[](auto& p) { p.stop.assign(17, "x"); }, "stop", "17"},
      {[](auto& p) { p.stop_token_ids = {-4}; }, "stop_token_ids", "-4"},
      {[](auto& p) { p.allowed_token_ids.emplace(); }, "allowed_token_ids", "empty"},
      {[=](auto& p) { p.logit_bias = {{1, nan}}; }, "logit_bias", "nan"},
      {[](auto& p) { p.golden_token_ids = {-2}; }, "golden_token_ids", "-2"},
      {[](auto& p) { p.bad_words = {""}; }, "bad_words", "empty"},
  };
  for (const Case& test : cases) {
    SamplingParams params;
    test.change(params);
    try {
      params.validate();
      ADD_FAILURE() << test.field << " " << test.value << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr(test.field));
      EXPECT_THAT(error.what(), HasSubstr(test.value));
    }
  }
}

}  // namespace
}  // namespace deepinfer
