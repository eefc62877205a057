#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/ops.h"

namespace deepinfer {

// Small scalar pieces that every CPU back end shares: too small to gain from vectors, and one copy
// keeps their order of arithmetic the same (docs/numerics.md, rules 5 and 10).

/// Turns the S(S+2) products m of one row into pre[S], post[S], comb[S*S] (model.md 5).
void finish_hc_mixes(std::span<const float> m, const HyperConnectionWeights& weights,
                     const HyperConnectionParams& params, float* pre, float* post, float* comb);

/// Routes one row: model.md 8.1.
void route_row(std::span<const float> logits, std::span<const float> bias,
               const RouterParams& params, std::int32_t* experts, float* weights);

/// sigmoid(copysign(sqrt(max(|d|, 1e-6)), d)) (model.md 9.5).
float engram_gate_value(float d);

struct ScoredEntry {
  float score = 0.0F;
  std::int32_t entry = 0;
};

/// Keeps the `keep` best of `entries` (higher score, then lower entry) and writes their entries in
/// ascending order to `out`, padding with -1. Reorders `entries`. Throws Error(kInternal) on NaN.
void keep_best(std::span<ScoredEntry> entries, std::int64_t keep, std::span<std::int32_t> out);

/// Block maxima of `scores` (visible entries 0, 1, …), the last block forced to +infinity, best
/// `params.candidate_blocks` kept, ascending, -1 padded (model.md 7.4).
void publish_blocks(std::span<const float> scores, const IndexSelectParams& params,
                    std::span<std::int32_t> blocks, std::vector<ScoredEntry>& scratch);

}  // namespace deepinfer
