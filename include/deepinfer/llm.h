#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "deepinfer/engine_options.h"
#include "deepinfer/outputs.h"
#include "deepinfer/sampling_params.h"

namespace deepinfer {

/// A prompt: text, or token ids that are used as they are.
class Prompt {
 public:
  // NOLINTBEGIN(google-explicit-constructor): {"text", ids} reads well at the call.
  Prompt(std::string text) : value_(std::move(text)) {}
  Prompt(const char* text) : value_(std::string(text)) {}
  Prompt(std::vector<std::int32_t> ids) : value_(std::move(ids)) {}
  // NOLINTEND(google-explicit-constructor)

  const std::string* text() const { return std::get_if<std::string>(&value_); }
  const std::vector<std::int32_t>* ids() const {
    return std::get_if<std::vector<std::int32_t>>(&value_);
  }

 private:
  std::variant<std::string, std::vector<std::int32_t>> value_;
};

struct Progress {
  std::size_t finished = 0;  ///< samples
  std::size_t total = 0;
  std::uint64_t prompt_tokens = 0;     ///< of all prompts computed so far
  std::uint64_t generated_tokens = 0;  ///< so far
};

/// How a call runs. All callbacks run on the calling thread, between steps; an exception of theirs
/// aborts the call's requests, leaves the engine usable, and comes out of the call.
struct CallOptions {
  /// One for each token. A request that fails ends with one more: `finished`, its reason, and no
  /// token (id 0 after others, else the last of the prompt).
  std::function<void(const StreamEvent&)> on_token;
  std::function<void(const ChatDelta&)> on_delta;    ///< chat() only
  std::function<void(const Progress&)> on_progress;  ///< after every step
  /// Asked before every step: true aborts what is unfinished (reason `abort`, tokens so far kept).
  std::function<bool()> cancelled;
  /// BOS before text prompts; empty: where the tokenizer has one. Never doubled.
  std::optional<bool> add_bos;
  /// Throw for a bad request before anything runs, instead of a failed result.
  bool strict = false;
};

struct ChatOptions {
  /// Apply the official sampling override (temperature 1 with thinking, ...) even where the request
  /// names another value.
  bool official_sampling_policy = false;
  /// Replaces the sampling values of the requests; one for all, or one each.
  std::vector<SamplingParams> sampling;
};

/// A conversation as the model sees it.
struct RenderedChat {
  std::string text;
  std::vector<std::int32_t> token_ids;
};

/// What an engine is, for logs and `--json`.
struct EngineInfo {
  std::string model_path;
  std::string model_origin;  ///< one sentence: which checkpoint is used and why
  std::string tokenizer_path;
  std::string device;    ///< `cpu`, `reference`
  std::string numerics;  ///< `exact`, `exact+cache`
  int num_threads = 0;
  int max_model_len = 0;
  int max_position_embeddings = 0;
  int max_num_seqs = 0;
  int max_num_batched_tokens = 0;
  int tokens_per_block = 0;
  std::int64_t cache_blocks = 0;
  std::int64_t cache_bytes = 0;   ///< blocks and state slots
  std::int64_t weight_bytes = 0;  ///< as stored in the checkpoint
  int vocab_size = 0;
  std::optional<std::int32_t> bos_token_id;
  std::vector<std::int32_t> eos_token_ids;
};

/// Counters since the engine was built.
struct EngineStats {
  std::uint64_t steps = 0;
  std::uint64_t requests = 0;
  std::uint64_t prompt_tokens = 0;     ///< rows of prompts computed, recomputation included
  std::uint64_t generated_tokens = 0;  ///< tokens emitted
  std::uint64_t preemptions = 0;
  double forward_seconds = 0.0;
  double sample_seconds = 0.0;
  double total_seconds = 0.0;  ///< inside steps
};

/// The engine with its checkpoint and tokenizer: text in, text out. Calls from several threads are
/// queued. Errors are deepinfer::Error, derived from std::runtime_error.
class LLM {
 public:
  /// Finds and opens the checkpoint, sizes the caches. Errors: kCheckpoint for a missing or bad
  /// checkpoint or tokenizer, kUnsupported for a device or numerics that this build lacks,
  /// kInvalidArgument naming the option or variable, kOutOfMemory when the limits don't suffice.
  explicit LLM(const EngineOptions& options = {});
  ~LLM();
  LLM(LLM&&) noexcept;
  LLM& operator=(LLM&&) noexcept;

  /// Completes prompts. `params`: none for the defaults, one for all, or one per prompt. Returns
  /// the results in input order, the n samples of a prompt in a row. Bad prompts yield a failed
  /// result and never stop the others; errors that concern the whole call (wrong number of
  /// `params`, a parameter out of range) throw Error(kInvalidArgument).
  std::vector<CompletionResult> generate(const std::vector<Prompt>& prompts,
                                         const std::vector<SamplingParams>& params = {},
                                         const CallOptions& call = {});

  /// Answers conversations, each a JSON object in the form of a Chat Completions request
  /// (`messages`, `tools`, `thinking`, `reasoning_effort`, sampling values). A bad request yields a
  /// failed result. Results in input order.
  std::vector<ChatResult> chat(const std::vector<std::string>& requests_json,
                               const ChatOptions& chat = {}, const CallOptions& call = {});

  /// Log-probabilities of the given sequences and, per token, of the `top_logprobs` most likely.
  std::vector<ScoreResult> score(const std::vector<Prompt>& prompts, int top_logprobs = 0,
                                 const CallOptions& call = {});

  /// Text to ids as generate() does it; `special`: spellings of special tokens become their ids;
  /// `add_bos`: empty where the tokenizer has a BOS.
  std::vector<std::int32_t> encode(std::string_view text, std::optional<bool> add_bos = {},
                                   bool special = true) const;
  std::string decode(const std::vector<std::int32_t>& ids, bool skip_special = false) const;

  /// The prompt that chat() would make of a request. Throws Error(kInvalidArgument) for a bad one.
  RenderedChat render(const std::string& request_json) const;
  /// Model text (after the prompt) to message. `thinking`: the text starts inside the reasoning.
  ChatResult parse(std::string_view text, bool thinking) const;

  const EngineInfo& info() const;
  EngineStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace deepinfer
