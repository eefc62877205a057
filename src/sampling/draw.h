#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"

namespace deepinfer {

// The two draw modes of the sampler. Both depend on seed, position and the row alone, never on what
// else is in the batch.

/// What a draw is for; part of the generator's subsequence (engine.md 10.4).
enum class DrawCase : std::uint8_t { kOrdinary = 0, kResidual = 1, kAcceptance = 2 };

/// `position * 3 + case` as a 32-bit signed product, widened: wraps as the official kernel does.
std::uint64_t draw_subsequence(std::int64_t position, DrawCase draw_case);

/// Probability as fixed point: floor(exp(logp) * 2^31). Tokens below 2^-31 have none.
std::uint32_t draw_weight(float logp);

/// One draw from integer weights, columns in lane-major order (engine.md 10.4). Returns the column,
/// or -1 when all weights are 0. `outputs_used`, if given, receives the generator outputs consumed.
std::int64_t draw_from_weights(std::span<const std::uint32_t> weights, std::uint64_t seed,
                               std::uint64_t subsequence, int* outputs_used = nullptr);

/// The uniform of the acceptance test: x * 2^-32 + 2^-33 in float32, in (0, 1].
float acceptance_uniform(std::uint32_t word);

/// -log(-log((word + 0.5) * 2^-32)) in float64, rounded to float32.
float gumbel_noise(std::uint32_t word);

/// The random word of a token in the coupled draw (engine.md 16.9).
std::uint32_t coupled_word(std::uint64_t seed, std::int64_t position, TokenId token);

/// Gumbel-max with noise keyed by (seed, position, token id): the column with the largest
/// logp + noise among those above -infinity, the lowest of equals; -1 when there is none. `columns`
/// holds the token id of each column, ascending; empty when column i is token i.
std::int64_t draw_coupled(std::span<const float> logp, std::span<const TokenId> columns,
                          std::uint64_t seed, std::int64_t position);

}  // namespace deepinfer
