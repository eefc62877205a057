#include "sampling/sampler.h"

#include <algorithm>

#include "sampling/draw.h"

namespace deepinfer {

void Sampler::order_top(std::span<const float> keys, int count) {
  order_.resize(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) order_[i] = static_cast<std::int32_t>(i);
  const auto wanted = std::min<std::size_t>(static_cast<std::size_t>(count), keys.size());
  std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(wanted),
                    order_.end(), [&](std::int32_t a, std::int32_t b) {
                      const float key_a = keys[static_cast<std::size_t>(a)];
                      const float key_b = keys[static_cast<std::size_t>(b)];
                      return key_a != key_b ? key_a > key_b : a < b;
                    });
  order_.resize(wanted);
}

SampledToken Sampler::score(std::span<const float> logits, TokenId token, int top) {
  const RawNormalizer normalizer = raw_normalizer(logits, scratch_);
  const auto logprob = [&](TokenId id) {
    return std::max(normalizer.logp(logits[static_cast<std::size_t>(id)]), kLogprobFloor);
  };
  SampledToken result{token, logprob(token), {}};
  if (top > 0) {
    order_top(logits, top);
    for (const TokenId id : order_) result.top.push_back({id, logprob(id)});
  }
  return result;
}

std::int64_t Sampler::draw(const SampleRow& row) {
  if (row.draw_mode == DrawMode::kCoupled) {
    return draw_coupled(filter_.logp(), filter_.columns(), row.seed, row.position);
  }
  weights_.clear();
  for (const float logp : filter_.logp()) weights_.push_back(draw_weight(logp));
  return draw_from_weights(weights_, row.seed, draw_subsequence(row.position, DrawCase::kOrdinary));
}

SampledToken Sampler::sample(std::span<float> logits, const SampleRow& row) {
  const bool raw = row.logprobs_mode == LogprobsMode::kRaw;
  if (raw) raw_.assign(logits.begin(), logits.end());
  editor_.apply(row.edits, logits);
  filter_.apply(logits, row.filter);

  TokenId token = filter_.argmax();
  if (row.forced >= 0) {
    token = row.forced;
  } else if (!row.filter.greedy()) {
    const std::int64_t column = draw(row);
    // No column: every token's mass is below 2^-31, so none can be drawn.
    if (column >= 0) token = filter_.token_of(static_cast<std::size_t>(column));
  }
  if (raw) return score(raw_, token, row.top_logprobs);

  SampledToken result{token, std::max(filter_.logp_of(token), kLogprobFloor), {}};
  if (row.top_logprobs > 0) {
    // By logit: what was dropped follows what was kept, in the same order.
    order_top(logits, row.top_logprobs);
    for (const TokenId id : order_) {
      result.top.push_back({id, std::max(filter_.logp_of(id), kLogprobFloor)});
    }
  }
  return result;
}

}  // namespace deepinfer
