#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace deepinfer {

/// Below this a request is greedy: argmax, log-probabilities at this temperature.
inline constexpr float kGreedyTemperature = 1e-5F;

struct FilterParams {
  float temperature = 1.0F;
  float top_p = 1.0F;
  std::int64_t top_k = -1;  ///< -1 = off
  float min_p = 0.0F;
  std::int64_t force_topk = 0;  ///< the whole row is restricted to so many tokens; 0 = off

  bool greedy() const { return temperature < kGreedyTemperature; }
};

/// Temperature, min-p, joint top-p and top-k, and the log-softmax over what is left (engine.md
/// 10.3). Sums run in the order of docs/numerics.md rule 2 over the columns, so that a row gives
/// the same bits wherever it is computed. Holds scratch: one object serves one thread.
class TokenFilter {
 public:
  /// `logits`: one edited row, -infinity for banned tokens. Throws Error(kInternal) when nothing
  /// finite is left or a value is NaN or +infinity. Results stay valid until the next call.
  void apply(std::span<const float> logits, const FilterParams& params);

  /// The lowest id of the largest logit.
  TokenId argmax() const { return argmax_; }
  /// Processed log-probabilities, one a column; -infinity for dropped tokens.
  std::span<const float> logp() const { return logp_; }
  /// The token of each column, ascending; empty when column i is token i (no force_topk).
  std::span<const TokenId> columns() const { return columns_; }
  TokenId token_of(std::size_t column) const {
    return columns_.empty() ? static_cast<TokenId>(column) : columns_[column];
  }
  /// Log-probability of a token: -infinity when it was dropped.
  float logp_of(TokenId token) const;

 private:
  void select_columns(std::span<const float> logits, std::int64_t count);
  void renormalize();

  TokenId argmax_ = 0;
  std::vector<TokenId> columns_;
  std::vector<float> values_;  ///< logits by column under force_topk
  std::vector<float> logp_;
  std::vector<float> probabilities_;
  std::vector<std::uint32_t> mass_;
  std::vector<std::int32_t> order_;
};

/// The integer prefix rule alone: which columns remain, ascending, of those whose key is above
/// -infinity. Order: key descending, column ascending. The shortest prefix whose mass reaches
/// floor(top_p * 2^31) + 1 (top_p < 1), and at most top_k columns (0 <= top_k < columns). `mass` is
/// read only when top_p < 1. Result in `kept`.
void keep_prefix(std::span<const float> keys, std::span<const std::uint32_t> mass, float top_p,
                 std::int64_t top_k, std::vector<std::int32_t>& kept);

/// log-softmax of an unedited row at one token: in float64 from the float32 maximum and the sum of
/// docs/numerics.md, rounded once. `normalizer` from raw_normalizer().
struct RawNormalizer {
  float maximum = 0.0F;
  double log_sum = 0.0;
  float logp(float logit) const {
    return static_cast<float>((static_cast<double>(logit) - maximum) - log_sum);
  }
};
/// Throws as TokenFilter::apply. `scratch` is resized to the row.
RawNormalizer raw_normalizer(std::span<const float> logits, std::vector<float>& scratch);

}  // namespace deepinfer
