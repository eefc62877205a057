#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "deepinfer/outputs.h"
#include "deepinfer/sampling_params.h"

namespace deepinfer {

/// Identity of a request in an engine; counts up over its life.
enum class RequestId : std::uint64_t {};

/// One sequence to generate or to score. `sampling.n` is not read: samples are requests of their
/// own, with seeds of their own.
struct EngineRequest {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  std::uint64_t seed = 0;                       ///< of the draws
  std::vector<std::vector<TokenId>> bad_words;  ///< sampling.bad_words as ids
  /// With a value the prompt is scored and nothing generated: raw log-probabilities of its tokens
  /// and of so many most likely ones.
  std::optional<int> score_top_logprobs;
};

/// Why a prompt can't run. Such a request yields a result like any other.
struct Refusal {
  const char* finish_reason = "";
  std::string message;
};

/// Receives what requests produce, on the thread that calls Engine::step. For each request: any
/// number of on_token, then exactly one of the others. An exception leaves the engine usable;
/// events of the same step that weren't delivered are lost.
class EngineSink {
 public:
  virtual ~EngineSink() = default;
  /// Strings and vectors of `event` may be moved from. index and sample are left 0.
  virtual void on_token(RequestId id, StreamEvent&& event) = 0;
  virtual void on_finished(RequestId id, CompletionResult&& result) = 0;
  virtual void on_scored(RequestId id, ScoreResult&& result) = 0;
};

}  // namespace deepinfer
