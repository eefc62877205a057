#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace deepinfer {

/// Finish reasons of results. Texts are part of the interface.
namespace finish_reason {
inline constexpr const char* kStop = "stop";      ///< EOS, a stop id or a stop string
inline constexpr const char* kLength = "length";  ///< max_tokens or max_model_len
inline constexpr const char* kAbort = "abort";
inline constexpr const char* kPromptTooLong = "prompt_length_exceeded";
inline constexpr const char* kInvalidToken = "invalid_token";
inline constexpr const char* kError = "error";  ///< any other failure; see `error`
}  // namespace finish_reason

struct TokenLogprob {
  std::int32_t token_id = 0;
  float logprob = 0.0F;
};

/// One generated token, field by field as the official package reports it.
struct RequestOutput {
  std::string request_id;
  int prompt_len = 0;
  std::int32_t token_id = 0;
  bool finished = false;
  std::string finish_reason;  ///< empty until the last token
  float token_logprobs = 0.0F;
  float nextn_logprobs = 1.0F;      ///< 1.0: not available
  float sum_smaller_probs = -1.0F;  ///< -1.0: not available
  std::vector<float> top_logprobs;  ///< most likely first
  std::vector<std::int32_t> top_token_ids;
  int num_output_tokens = 0;
  std::vector<float> prompt_logprobs;  ///< on the first token only; prompt_len - 1 values
  int draft_tok = 1;
  int accept_tok = 1;
  std::optional<std::vector<float>> confidence_score;
  int max_num_batched_tokens = 0;
};

/// What generate() hands to its callback as tokens arrive.
struct StreamEvent {
  std::size_t index = 0;  ///< of the prompt in the call
  int sample = 0;         ///< 0 .. n-1
  RequestOutput output;
  /// Text that became certain with this token: whole characters, special tokens kept, never part of
  /// a stop string. All deltas of a sample joined are CompletionResult::text.
  std::string text_delta;
  std::string text_delta_skip_special;  ///< the same without special tokens
};

/// The outcome of one sample of one prompt. Every prompt yields exactly `n` of them, or one
/// when it is refused.
struct CompletionResult {
  std::size_t index = 0;
  int sample = 0;
  std::string request_id;
  int prompt_len = 0;
  std::string text;                     ///< special tokens kept; the stop string is cut
  std::string text_skip_special;        ///< special tokens dropped
  std::vector<std::int32_t> token_ids;  ///< EOS and the tokens of a stop string included
  std::vector<float> token_logprobs;    ///< floored at -9999
  std::vector<std::vector<TokenLogprob>> top_logprobs;  ///< per token, most likely first
  std::vector<float> prompt_logprobs;                   ///< prompt_len - 1 values, or none
  std::string finish_reason;
  std::optional<std::string> stop_match;   ///< the stop string that ended it
  std::optional<std::int32_t> stop_token;  ///< the EOS or stop id that ended it
  std::uint64_t seq_seed = 0;              ///< the seed that was used
  std::int32_t last_prompt_token = 0;
  int max_num_batched_tokens = 0;
  std::string error;  ///< why the request failed; empty when it didn't

  bool failed() const { return !error.empty(); }
};

/// The per-token form of a result. A request that produced no token yields one output whose
/// token_id is the last prompt token (as the official package does).
std::vector<RequestOutput> to_request_outputs(const CompletionResult& result);

/// Raw log-probabilities of a given token sequence.
struct ScoreResult {
  std::size_t index = 0;
  std::vector<std::int32_t> token_ids;
  /// Natural logarithm of the unmodified softmax, one per token; the first is NaN (nothing predicts
  /// it).
  std::vector<float> token_logprobs;
  std::vector<std::vector<TokenLogprob>> top_logprobs;  ///< per token; the first is empty
  std::string finish_reason;  ///< empty when scored, else as in CompletionResult
  std::string error;

  bool failed() const { return !error.empty(); }
  /// Sum over all tokens but the first.
  double total_logprob() const;
};

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  ///< a JSON object as text
};

struct Usage {
  int prompt_tokens = 0;
  int completion_tokens = 0;
  int reasoning_tokens = 0;
  int total_tokens() const { return prompt_tokens + completion_tokens; }
};

/// The answer to one conversation.
struct ChatResult {
  std::size_t index = 0;
  int sample = 0;
  std::string content;
  std::string reasoning_content;
  std::vector<ToolCall> tool_calls;
  std::string finish_reason;  ///< `stop`, `length`, `tool_calls`, or a failure
  Usage usage;
  std::vector<std::int32_t> token_ids;
  std::vector<float> token_logprobs;
  std::vector<std::vector<TokenLogprob>> top_logprobs;
  std::string raw_text;  ///< the model's text, special tokens kept
  std::string error;
  std::vector<std::string>
      warnings;  ///< departures from the official sampling policy, and the like

  bool failed() const { return !error.empty(); }
};

/// A piece of a streamed answer.
struct ChatDelta {
  enum class Kind { kReasoning, kContent, kToolCall };
  std::size_t index = 0;
  int sample = 0;
  Kind kind = Kind::kContent;
  std::string text;       ///< of reasoning or content, or the next characters of a call's arguments
  int tool_index = 0;     ///< tool calls: which one
  std::string tool_id;    ///< set on a call's first delta
  std::string tool_name;  ///< set on a call's first delta
};

}  // namespace deepinfer
