#include "deepinfer/sampling_params.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/error.h"

namespace deepinfer {
namespace {

constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();

std::string show(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}
std::string show(std::int64_t value) { return std::to_string(value); }

template <typename T>
[[noreturn]] void refuse(const char* field, T value, const char* range) {
  fail_argument(std::string(field) + " must be " + range + ", got " + show(value));
}

/// NaN is out of every range.
void check_range(const char* field, double value, double low, double high, const char* range) {
  if (!(value >= low && value <= high)) refuse(field, value, range);
}
void check_range(const char* field, std::int64_t value, std::int64_t low, std::int64_t high,
                 const char* range) {
  if (value < low || value > high) refuse(field, value, range);
}

}  // namespace

void SamplingParams::validate() const {
  // The sampler computes in float32: what overflows there is no number to it.
  constexpr double kHuge = std::numeric_limits<float>::max();
  constexpr double kTiny = std::numeric_limits<float>::min();
  check_range("temperature", temperature, 0.0, kHuge, "a float32 number >= 0");
  if (!(top_p > 0.0 && top_p <= 1.0)) refuse("top_p", top_p, "in (0, 1]");
  if (top_k != -1) check_range("top_k", top_k, 1, kMaxInt, "-1 (off) or in 1 .. 2147483647");
  check_range("max_tokens", max_tokens, 0, kMaxInt, "in 1 .. 2147483647");
  check_range("min_tokens", min_tokens, 0, kMaxInt, "in 0 .. 2147483647");
  if (min_tokens > std::max<std::int64_t>(max_tokens, 1)) {
    fail_argument("min_tokens must be <= max_tokens (" + show(max_tokens) + "), got " +
                  show(min_tokens));
  }
  check_range("first_n_token_no_eos", static_cast<std::int64_t>(first_n_token_no_eos), 0, kMaxInt,
              ">= 0");
  check_range("top_logprobs", static_cast<std::int64_t>(top_logprobs), 0, 1000, "in 0 .. 1000");
  check_range("min_p", min_p, 0.0, 1.0, "in [0, 1]");
  if (!(repetition_penalty >= kTiny && repetition_penalty <= kHuge)) {
    refuse("repetition_penalty", repetition_penalty, "a float32 number > 0");
  }
  check_range("presence_penalty", presence_penalty, -2.0, 2.0, "in [-2, 2]");
  check_range("frequency_penalty", frequency_penalty, -2.0, 2.0, "in [-2, 2]");
  check_range("n", static_cast<std::int64_t>(n), 1, 128, "in 1 .. 128");
  for (const auto& [token, bias] : logit_bias) {
    if (token < 0) refuse("logit_bias token", static_cast<std::int64_t>(token), ">= 0");
    const bool removes = bias == -std::numeric_limits<double>::infinity();
    if (!removes && !(std::fabs(bias) <= kHuge)) {
      refuse("logit_bias", bias, "a float32 number or -inf");
    }
  }
  check_range("number of stop strings", static_cast<std::int64_t>(stop.size()), 0, 16,
              "at most 16");
  for (const std::string& text : stop) {
    if (text.empty()) fail_argument("stop must not contain an empty string");
  }
  for (const std::string& word : bad_words) {
    if (word.empty()) fail_argument("bad_words must not contain an empty string");
  }
  for (const std::int32_t token : stop_token_ids) {
    if (token < 0) refuse("stop_token_ids", static_cast<std::int64_t>(token), ">= 0");
  }
  if (allowed_token_ids) {
    if (allowed_token_ids->empty()) fail_argument("allowed_token_ids must not be empty");
    for (const std::int32_t token : *allowed_token_ids) {
      if (token < 0) refuse("allowed_token_ids", static_cast<std::int64_t>(token), ">= 0");
    }
  }
  for (const std::int32_t token : golden_token_ids) {
    if (token < -1) refuse("golden_token_ids", static_cast<std::int64_t>(token), ">= -1");
  }
}

}  // namespace deepinfer
