#include "sampling/token_filter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/math.h"
#include "sampling/draw.h"

namespace deepinfer {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Index of the largest value, the lowest of equals.
std::size_t checked_argmax(std::span<const float> logits) {
  std::size_t best = logits.size();
  float maximum = -kInfinity;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float value = logits[i];
    if (value > maximum) {
      maximum = value;
      best = i;
    }
    // One comparison finds NaN and +infinity.
    if (!(value < kInfinity))
      fail_internal("logit of token " + std::to_string(i) + " isn't finite");
  }
  if (best == logits.size()) fail_internal("no token is left to choose from");
  return best;
}

/// Sum of a row of probabilities: tiles of 8,192 columns, each as docs/numerics.md rule 2 says, the
/// tiles added in order in float64. One float32 sum over a vocabulary of 129,280 would be off by
/// 7e-6, more than the tolerance of log-probabilities.
double row_sum(std::span<const float> values) {
  constexpr std::size_t kTile = 8192;
  double sum = 0.0;
  for (std::size_t begin = 0; begin < values.size(); begin += kTile) {
    sum +=
        static_cast<double>(sum16(values.subspan(begin, std::min(kTile, values.size() - begin))));
  }
  return sum;
}

float log_row_sum(std::span<const float> values) {
  return static_cast<float>(log_f64(row_sum(values)));
}

}  // namespace

void keep_prefix(std::span<const float> keys, std::span<const std::uint32_t> mass, float top_p,
                 std::int64_t top_k, std::vector<std::int32_t>& kept) {
  kept.clear();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] != -kInfinity) kept.push_back(static_cast<std::int32_t>(i));
  }
  const bool by_mass = top_p < 1.0F;
  const auto width = static_cast<std::int64_t>(keys.size());
  const auto limit = static_cast<std::size_t>(top_k >= 0 && top_k < width ? top_k : width);
  if (!by_mass && limit >= kept.size()) return;
  const auto target = static_cast<std::uint64_t>(static_cast<double>(top_p) * 0x1p31) + 1;

  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float key_a = keys[static_cast<std::size_t>(a)];
    const float key_b = keys[static_cast<std::size_t>(b)];
    return key_a != key_b ? key_a > key_b : a < b;
  };
  // Sorted piece by piece: the prefix is short in almost every row, a full sort is the exception.
  std::size_t sorted = 0;
  std::size_t taken = 0;
  std::uint64_t cumulative = 0;
  std::size_t piece = 256;
  while (taken < std::min(limit, kept.size()) && !(by_mass && cumulative >= target)) {
    if (taken == sorted) {
      const std::size_t next = std::min(kept.size(), sorted + piece);
      const auto begin = kept.begin() + static_cast<std::ptrdiff_t>(sorted);
      const auto end = kept.begin() + static_cast<std::ptrdiff_t>(next);
      if (next < kept.size()) std::nth_element(begin, end, kept.end(), before);
      std::sort(begin, end, before);
      sorted = next;
      piece *= 4;
    }
    if (by_mass) cumulative += mass[static_cast<std::size_t>(kept[taken])];
    ++taken;
  }
  kept.resize(taken);
  std::sort(kept.begin(), kept.end());
}

void TokenFilter::select_columns(std::span<const float> logits, std::int64_t count) {
  keep_prefix(logits, {}, 1.0F, count, columns_);
  values_.clear();
  for (const TokenId id : columns_) values_.push_back(logits[static_cast<std::size_t>(id)]);
}

void TokenFilter::renormalize() {
  probabilities_.resize(logp_.size());
  for (std::size_t i = 0; i < logp_.size(); ++i) probabilities_[i] = exp_f32(logp_[i]);
  const float shift = log_row_sum(probabilities_);
  for (float& value : logp_) value -= shift;
}

void TokenFilter::apply(std::span<const float> logits, const FilterParams& params) {
  const std::size_t best = checked_argmax(logits);
  argmax_ = static_cast<TokenId>(best);
  const float maximum = logits[best];
  columns_.clear();
  std::span<const float> row = logits;
  if (params.force_topk > 0 && params.force_topk < static_cast<std::int64_t>(logits.size())) {
    select_columns(logits, params.force_topk);
    row = values_;
  }

  const float inverse = 1.0F / (params.greedy() ? kGreedyTemperature : params.temperature);
  logp_.resize(row.size());
  probabilities_.resize(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    logp_[i] = (row[i] - maximum) * inverse;
    probabilities_[i] = exp_f32(logp_[i]);
  }
  const float shift = log_row_sum(probabilities_);
  for (float& value : logp_) value -= shift;
  if (params.greedy()) return;

  if (params.min_p > 0.0F) {
    // Relative to the largest probability, whose unnormalised value is exp(0) = 1; the normaliser
    // cancels but is applied, so that rounding is that of probabilities.
    const float floor = params.min_p * exp_f32(-shift);
    for (float& value : logp_) {
      if (exp_f32(value) < floor) value = -kInfinity;
    }
    renormalize();
  }
  const auto width = static_cast<std::int64_t>(row.size());
  const bool by_mass = params.top_p < 1.0F;
  if (!by_mass && !(params.top_k >= 0 && params.top_k < width)) return;

  mass_.clear();
  if (by_mass) {
    for (const float value : logp_) mass_.push_back(draw_weight(value));
  }
  // Keys are logits, whose order the log-probabilities share but for ties that rounding makes.
  // Tokens that min-p dropped are at the end of that order; they have no mass and must not return.
  if (params.min_p > 0.0F) {
    if (row.data() != values_.data()) values_.assign(row.begin(), row.end());
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (logp_[i] == -kInfinity) values_[i] = -kInfinity;
    }
    row = values_;
  }
  keep_prefix(row, mass_, params.top_p, params.top_k, order_);
  std::size_t next = 0;
  for (std::size_t i = 0; i < logp_.size(); ++i) {
    if (next < order_.size() && static_cast<std::size_t>(order_[next]) == i) {
      ++next;
    } else {
      logp_[i] = -kInfinity;
    }
  }
  renormalize();
}

float TokenFilter::logp_of(TokenId token) const {
  if (columns_.empty()) return logp_[static_cast<std::size_t>(token)];
  const auto place = std::lower_bound(columns_.begin(), columns_.end(), token);
  if (place == columns_.end() || *place != token) return -kInfinity;
  return logp_[static_cast<std::size_t>(place - columns_.begin())];
}

RawNormalizer raw_normalizer(std::span<const float> logits, std::vector<float>& scratch) {
  const float maximum = logits[checked_argmax(logits)];
  scratch.resize(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) scratch[i] = exp_f32(logits[i] - maximum);
  return {maximum, log_f64(row_sum(scratch))};
}

}  // namespace deepinfer
