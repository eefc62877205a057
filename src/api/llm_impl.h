#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "api/assembly.h"
#include "deepinfer/llm.h"

namespace deepinfer {

/// What LLM hides. Calls take the mutex, so that those from several threads queue up.
struct LLM::Impl {
  explicit Impl(const EngineOptions& options)
      : assembly(assemble(options)), seed(options.seed), random(std::random_device{}()) {}

  std::unique_ptr<Assembly> assembly;
  std::optional<std::uint64_t> seed;  ///< EngineOptions::seed
  std::mt19937_64 random;
  std::mutex mutex;

  Engine& engine() { return *assembly->engine; }
  const Tokenizer& tokenizer() const { return assembly->tokenizer; }

  /// The seed of a request without one: derived from the engine's seed and the request's number, or
  /// 64 random bits.
  std::uint64_t next_seed();

  /// Ids of a prompt; text gets BOS by the call's choice, else the tokenizer's policy. Throws
  /// Error(kInvalidArgument) for text that isn't UTF-8.
  std::vector<TokenId> encode_prompt(const Prompt& prompt, std::optional<bool> add_bos) const;

  /// A prompt after encoding, or why it can't run.
  struct EncodedPrompt {
    std::vector<TokenId> ids;
    std::optional<Refusal> refusal;
  };
  /// Throws for a bad prompt only when the call is strict.
  std::vector<EncodedPrompt> encode_all(const std::vector<Prompt>& prompts,
                                        const CallOptions& call);

  /// SamplingParams::bad_words as ids: each word at the start of a text and after a blank.
  std::vector<std::vector<TokenId>> encode_bad_words(const std::vector<std::string>& words) const;

  std::vector<CompletionResult> generate(const std::vector<Prompt>& prompts,
                                         const std::vector<SamplingParams>& params,
                                         const CallOptions& call);
  std::vector<ChatResult> chat(const std::vector<std::string>& requests, const ChatOptions& chat,
                               const CallOptions& call);
  std::vector<ScoreResult> score(const std::vector<Prompt>& prompts, int top_logprobs,
                                 const CallOptions& call);
};

}  // namespace deepinfer
