#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_message.h"
#include "text/chat_request_error.h"

namespace deepinfer {

inline constexpr std::int64_t kOfficialContextTokens = 1'048'576;

struct ChatRequestOptions {
  /// Exactly the official rules (interface.md §8.2); fields beyond them are ignored.
  bool strict_recipe = false;
  /// `--sampling-policy official`: temperature and top_p follow the official policy even where the
  /// request names them. Implied by `strict_recipe`.
  bool official_sampling = false;
  /// Images may be named by http(s) URLs.
  bool allow_http_images = false;
  /// Accepted values of `model`; empty accepts any. With `strict_recipe` the two official names.
  std::vector<std::string> served_models;
};

/// What the answer after thinking must look like; compiled by the grammar room.
struct OutputConstraint {
  enum class Kind { kNone, kJson, kRegex, kToolCall, kToolCallRequired };
  Kind kind = Kind::kNone;
  /// kJson: the schema, empty for any object. kRegex: the expression. kToolCall*: the tools as a
  /// JSON array in OpenAI's form.
  std::string text;
};

/// Sampling values of a request beyond the official ones, under their OpenAI or vLLM names. All
/// neutral by default.
struct ExtraSampling {
  std::optional<int> top_k;  ///< -1 (off) or at least 1
  double min_p = 0.0;
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  double repetition_penalty = 1.0;
  std::vector<std::pair<std::int64_t, double>> logit_bias;  ///< token id, bias
  std::vector<std::int64_t> stop_token_ids;
  std::vector<std::int64_t> allowed_token_ids;
  std::vector<std::string> bad_words;
  std::int64_t min_tokens = 0;
  bool ignore_eos = false;
  std::string so_args;  ///< JSON object as text, empty when not given
};

/// A checked Chat Completions request with the policy applied.
struct ChatRequest {
  std::string model;
  ChatConversation conversation;
  /// `low`, `high`, `xhigh`, `max` or an integer as text; empty when not thinking.
  std::string reasoning_effort;

  double temperature = 1.0;
  double top_p = 1.0;
  std::optional<std::int64_t> max_tokens;  ///< as the request gave it
  std::optional<std::uint64_t> seed;       ///< below 2^63
  bool logprobs = false;
  std::optional<int> top_logprobs;
  std::vector<std::string> stop;
  int n = 1;
  ExtraSampling extra;

  OutputConstraint constraint;
  bool parse_tool_calls = false;
  bool stream = false;
  bool stream_usage = false;  ///< `stream_options.include_usage`

  /// Sampling values of the request that depart from the official policy and are honoured.
  std::vector<std::string> policy_departures;
  /// Sampling values that the official policy replaced (`official_sampling`).
  std::vector<std::string> policy_overrides;
  /// Names of fields nobody reads (`foo`, `messages[].bar`), each once: a run warns once a name.
  std::vector<std::string> unknown_fields;

  /// max_tokens, or the default of the thinking mode and effort (8192, 65536, 131072).
  std::int64_t wanted_tokens() const;

  /// The most tokens to generate after a prompt of `prompt_tokens`: wanted_tokens(), a default
  /// lowered to what the context still holds, at least 1. Throws RequestError when the request
  /// named max_tokens and prompt and answer together exceed the context.
  std::int64_t token_budget(std::int64_t prompt_tokens,
                            std::int64_t context_tokens = kOfficialContextTokens) const;
};

/// Reads the body of a Chat Completions request. Throws RequestError for anything wrong with it,
/// naming the field, what was found and what is expected; broken JSON names the position.
ChatRequest parse_chat_request(std::string_view body, const ChatRequestOptions& options = {});
ChatRequest chat_request_from_json(const nlohmann::ordered_json& body,
                                   const ChatRequestOptions& options = {});

}  // namespace deepinfer
