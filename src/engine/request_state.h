#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/request.h"
#include "engine/text_stream.h"
#include "sampling/sampler.h"
#include "scheduler/step_plan.h"

namespace deepinfer {

/// What requests of an engine share.
struct RequestContext {
  const Tokenizer* tokenizer = nullptr;  ///< null: no texts, no stop strings
  std::vector<TokenId> eos;
  std::vector<TokenId> blacklist;  ///< never sampled
  std::int64_t force_topk = 0;
  int max_model_len = 0;
  int max_num_batched_tokens = 0;
};

/// One request while it lives in the engine: tokens, text, stop rules and the result that grows.
/// Knows nothing of steps and batches.
class RequestState {
 public:
  RequestState(RequestId id, EngineRequest request, const RequestContext& context);

  RequestId id() const { return id_; }
  bool scoring() const { return request_.score_top_logprobs.has_value(); }
  bool wants_prompt_logprobs() const { return scoring() || request_.sampling.prompt_logprobs; }
  int score_top() const { return request_.score_top_logprobs.value_or(0); }
  std::span<const TokenId> tokens() const { return tokens_; }
  int prompt_len() const { return prompt_len_; }
  int output_len() const { return static_cast<int>(tokens_.size()) - prompt_len_; }

  /// The position whose prompt log-probability is wanted next; those before are known already.
  int next_scored_position() const { return 1 + static_cast<int>(prompt_logprobs_.size()); }
  void add_prompt_logprob(SampledToken&& scored);

  /// How the next token is to be chosen. Views into this object, valid until it changes.
  SampleRow sample_row();

  /// Takes the chosen token in, applies the stop rules, and describes it. Finished afterwards when
  /// the event's output says so.
  StreamEvent append(SampledToken&& chosen);

  /// Ends the request before a stop rule did; `error` is empty when that is no failure. Returns the
  /// text that was held back.
  TextStream::Delta finish(const std::string& reason, const std::string& error);

  bool finished() const { return !finish_reason_.empty(); }
  CompletionResult take_result();
  ScoreResult take_score();

 private:
  bool is_eos(TokenId token) const;
  bool is_stop_id(TokenId token) const;
  /// The reason to stop after `token`, or nullptr.
  const char* stop_reason(TokenId token);
  void collect_bad_words();

  RequestId id_;
  EngineRequest request_;
  const RequestContext& context_;
  int prompt_len_;
  std::vector<TokenId> tokens_;
  std::optional<TextStream> text_;
  std::vector<std::pair<TokenId, float>> bias_;
  std::vector<TokenId> early_stops_;  ///< banned before min_tokens
  std::vector<TokenId> banned_now_;   ///< by bad words, at this token

  std::vector<float> prompt_logprobs_;
  std::vector<std::vector<TokenLogprob>> prompt_top_;
  std::vector<float> logprobs_;
  std::vector<std::vector<TokenLogprob>> top_;
  std::string finish_reason_;
  std::string error_;
  std::optional<TokenId> stop_token_;
};

/// Result of a request that never ran.
CompletionResult refused_result(RequestId id, const EngineRequest& request, const Refusal& refusal,
                                const RequestContext& context);
ScoreResult refused_score(const EngineRequest& request, const Refusal& refusal);

}  // namespace deepinfer
