#include "ops/scalar_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/math.h"

namespace deepinfer {
namespace {

/// Row softmax plus eps, then alternating column and row normalisation, columns first.
void sinkhorn(float* c, int n, int iterations, float eps) {
  for (int i = 0; i < n; ++i) {
    float* const row = c + i * n;
    const float max = *std::max_element(row, row + n);
    float sum = 0.0F;
    for (int j = 0; j < n; ++j) {
      row[j] = exp_f32(row[j] - max);
      sum += row[j];
    }
    for (int j = 0; j < n; ++j) row[j] = row[j] / sum + eps;
  }
  const auto normalise_columns = [&] {
    for (int j = 0; j < n; ++j) {
      float sum = 0.0F;
      for (int i = 0; i < n; ++i) sum += c[i * n + j];
      sum += eps;
      for (int i = 0; i < n; ++i) c[i * n + j] /= sum;
    }
  };
  normalise_columns();
  for (int round = 1; round < iterations; ++round) {
    for (int i = 0; i < n; ++i) {
      float sum = 0.0F;
      for (int j = 0; j < n; ++j) sum += c[i * n + j];
      sum += eps;
      for (int j = 0; j < n; ++j) c[i * n + j] /= sum;
    }
    normalise_columns();
  }
}

bool better(const ScoredEntry& a, const ScoredEntry& b) {
  return a.score != b.score ? a.score > b.score : a.entry < b.entry;
}

}  // namespace

void finish_hc_mixes(std::span<const float> m, const HyperConnectionWeights& weights,
                     const HyperConnectionParams& params, float* pre, float* post, float* comb) {
  const int n = params.streams;
  for (int s = 0; s < n; ++s) {
    pre[s] = sigmoid_f32(m[s] * weights.scale[0] + weights.base[s]) + params.eps;
    post[s] = 2.0F * sigmoid_f32(m[n + s] * weights.scale[1] + weights.base[n + s]);
  }
  for (int k = 0; k < n * n; ++k) {
    comb[k] = m[2 * n + k] * weights.scale[2] + weights.base[2 * n + k];
  }
  sinkhorn(comb, n, params.sinkhorn_iterations, params.eps);
}

void route_row(std::span<const float> logits, std::span<const float> bias,
               const RouterParams& params, std::int32_t* experts, float* weights) {
  const auto score_of = [&](std::size_t expert) {
    const float l = logits[expert];
    const float softplus =
        l > 20.0F ? l : static_cast<float>(log1p_f64(exp_f64(static_cast<double>(l))));
    return std::sqrt(softplus);
  };
  // A sorted list of the best so far: top_k is small, so insertion beats sorting all experts.
  const auto top_k = static_cast<std::size_t>(params.top_k);
  std::size_t kept = 0;
  thread_local std::vector<ScoredEntry> best;
  best.resize(top_k + 1);
  for (std::size_t e = 0; e < logits.size(); ++e) {
    const ScoredEntry entry{score_of(e) + bias[e], static_cast<std::int32_t>(e)};
    if (std::isnan(entry.score)) {
      fail_internal("route: score of expert " + std::to_string(e) + " is NaN");
    }
    if (kept == top_k && !better(entry, best[kept - 1])) continue;
    std::size_t at = kept;
    while (at > 0 && better(entry, best[at - 1])) {
      best[at] = best[at - 1];
      --at;
    }
    best[at] = entry;
    kept = std::min(kept + 1, top_k);
  }
  float sum = 0.0F;
  for (std::size_t k = 0; k < top_k; ++k) {
    experts[k] = best[k].entry;
    weights[k] = score_of(static_cast<std::size_t>(best[k].entry));
    sum += weights[k];
  }
  for (std::size_t k = 0; k < top_k; ++k) {
    weights[k] = weights[k] / (sum + 1e-20F) * params.scaling_factor;
  }
}

float engram_gate_value(float d) {
  return sigmoid_f32(std::copysign(std::sqrt(std::max(std::fabs(d), 1e-6F)), d));
}

void keep_best(std::span<ScoredEntry> entries, std::int64_t keep, std::span<std::int32_t> out) {
  for (const ScoredEntry& entry : entries) {
    if (std::isnan(entry.score)) {
      fail_internal("index_select: score of entry " + std::to_string(entry.entry) + " is NaN");
    }
  }
  const auto kept = std::min(static_cast<std::size_t>(keep), entries.size());
  if (kept < entries.size()) {
    std::nth_element(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(kept),
                     entries.end(), better);
  }
  for (std::size_t i = 0; i < kept; ++i) out[i] = entries[i].entry;
  std::sort(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(kept));
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(kept), out.end(), -1);
}

void publish_blocks(std::span<const float> scores, const IndexSelectParams& params,
                    std::span<std::int32_t> blocks, std::vector<ScoredEntry>& scratch) {
  const auto size = static_cast<std::size_t>(params.candidate_block_size);
  const std::size_t count = (scores.size() + size - 1) / size;
  scratch.resize(count);
  for (std::size_t b = 0; b < count; ++b) {
    const std::size_t end = std::min((b + 1) * size, scores.size());
    float max = scores[b * size];
    for (std::size_t e = b * size + 1; e < end; ++e) max = std::max(max, scores[e]);
    if (b + 1 == count) max = std::numeric_limits<float>::infinity();
    scratch[b] = {max, static_cast<std::int32_t>(b)};
  }
  keep_best(scratch, params.candidate_blocks, blocks);
}

}  // namespace deepinfer
