#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace deepinfer {

/// Which log-probabilities a result reports.
enum class LogprobsMode {
  kProcessed,  ///< after masks, penalties, temperature and truncation: what was drawn from
  kRaw,        ///< of the unmodified softmax
};

/// How a token is drawn from its distribution.
enum class DrawMode {
  kCompat,   ///< fixed-point cumulative weights, as the official package draws on a GPU
  kCoupled,  ///< Gumbel-max with noise keyed by seed, position and token id
};

/// What the user may ask of sampling; a plain value. Names, defaults and ranges are those of the
/// official package, the last group is ours. Every field is neutral by default.
struct SamplingParams {
  double temperature = 1.0;      ///< >= 0; below 1e-5 the token is the argmax (lowest id of equals)
  double top_p = 1.0;            ///< in (0, 1]; 1 = off
  std::int64_t top_k = -1;       ///< -1 = off, else 1 .. 2^31-1
  std::int64_t max_tokens = 16;  ///< 1 .. 2^31-1; 0 counts as 1
  bool ignore_eos = false;
  int first_n_token_no_eos = 0;           ///< 1 forbids EOS as the first generated token
  int top_logprobs = 0;                   ///< 0 .. 1000 most likely tokens reported for each token
  bool prompt_logprobs = false;           ///< raw log-probabilities of the prompt's tokens
  std::optional<std::uint64_t> seq_seed;  ///< empty: 64 random bits
  /// Forced output: token i is golden_token_ids[i], -1 leaves it free.
  std::vector<std::int32_t> golden_token_ids;

  double min_p = 0.0;                                       ///< in [0, 1]; 0 = off
  double repetition_penalty = 1.0;                          ///< > 0; tokens of prompt and output
  double presence_penalty = 0.0;                            ///< in [-2, 2]; output tokens
  double frequency_penalty = 0.0;                           ///< in [-2, 2]; output tokens
  std::vector<std::pair<std::int32_t, double>> logit_bias;  ///< -infinity removes a token
  std::vector<std::string> stop;  ///< at most 16, none empty; cut from the text
  std::vector<std::int32_t> stop_token_ids;
  std::int64_t min_tokens = 0;  ///< EOS and stop ids are banned before
  int n = 1;                    ///< 1 .. 128 samples; sample i uses seq_seed + i
  LogprobsMode logprobs_mode = LogprobsMode::kProcessed;
  std::vector<std::string> bad_words;  ///< token sequences that are never completed
  std::optional<std::vector<std::int32_t>> allowed_token_ids;  ///< all others are banned
  DrawMode draw_mode = DrawMode::kCompat;

  /// Throws Error(kInvalidArgument) whose message names the first field out of range, its value and
  /// the range. Ids are checked against the vocabulary later, by the engine.
  void validate() const;
};

}  // namespace deepinfer
