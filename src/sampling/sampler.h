#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "deepinfer/outputs.h"
#include "deepinfer/sampling_params.h"
#include "sampling/logit_edits.h"
#include "sampling/token_filter.h"

namespace deepinfer {

/// Log-probabilities are reported no lower than this.
inline constexpr float kLogprobFloor = -9999.0F;

/// Everything about one row: scalars and views of the request's edits.
struct SampleRow {
  FilterParams filter;
  LogitEdits edits;
  DrawMode draw_mode = DrawMode::kCompat;
  std::uint64_t seed = 0;
  std::int64_t position = 0;  ///< absolute index of the token being chosen
  TokenId forced = -1;        ///< chosen whatever the distribution says; -1 = free
  LogprobsMode logprobs_mode = LogprobsMode::kProcessed;
  int top_logprobs = 0;
};

struct SampledToken {
  TokenId token = 0;
  float logprob = 0.0F;           ///< floored at kLogprobFloor
  std::vector<TokenLogprob> top;  ///< by logit descending, then id
};

/// The reference sampler: edits, filter, draw, log-probabilities of one row (engine.md 10.2, 16.6).
/// All back ends must choose as it does, given equal logits. Holds scratch: one object a thread.
class Sampler {
 public:
  /// `logits` [vocab] is edited in place. Throws Error(kInternal) when no token can be chosen.
  SampledToken sample(std::span<float> logits, const SampleRow& row);

  /// Raw log-probabilities of a row: that of `token`, and the `top` most likely. Throws as sample.
  SampledToken score(std::span<const float> logits, TokenId token, int top);

 private:
  /// The `count` columns with the largest keys, in order, into order_.
  void order_top(std::span<const float> keys, int count);
  std::int64_t draw(const SampleRow& row);

  LogitEditor editor_;
  TokenFilter filter_;
  std::vector<float> raw_;
  std::vector<float> scratch_;
  std::vector<std::int32_t> order_;
  std::vector<std::uint32_t> weights_;
};

}  // namespace deepinfer
