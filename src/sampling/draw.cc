#include "sampling/draw.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/math.h"
#include "base/philox.h"

namespace deepinfer {
namespace {

/// Lanes of the official sampling kernel: threads that each walk their own columns.
std::size_t lane_count(std::size_t width) {
  return width >= 8192 ? 2048 : std::bit_ceil(std::max<std::size_t>(width, 1));
}

std::array<std::uint32_t, 4> coupled_block(std::uint64_t seed, std::int64_t position,
                                           std::uint32_t block) {
  const auto p = static_cast<std::uint64_t>(position);
  // Counter word 1 = 1 keeps this stream apart from PhiloxStream's.
  return philox4x32_10(
      {block, 1, static_cast<std::uint32_t>(p), static_cast<std::uint32_t>(p >> 32)},
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

}  // namespace

std::uint64_t draw_subsequence(std::int64_t position, DrawCase draw_case) {
  const std::uint32_t product =
      static_cast<std::uint32_t>(position) * 3U + static_cast<std::uint32_t>(draw_case);
  return static_cast<std::uint64_t>(
      static_cast<std::int64_t>(std::bit_cast<std::int32_t>(product)));
}

std::uint32_t draw_weight(float logp) {
  return static_cast<std::uint32_t>(exp_f32(logp) * 0x1p31F);
}

std::int64_t draw_from_weights(std::span<const std::uint32_t> weights, std::uint64_t seed,
                               std::uint64_t subsequence, int* outputs_used) {
  constexpr std::uint64_t kLargest = 0xffffffffU;
  std::uint64_t total = 0;
  for (const std::uint32_t weight : weights) total += weight;
  if (total == 0 || total > kLargest) return -1;

  const std::uint64_t limit = kLargest / total * total;
  PhiloxStream stream(seed, subsequence);
  std::uint64_t r = stream.next();
  int used = 1;
  while (r >= limit) {  // the last, incomplete multiple of total would favour low columns
    r = stream.next();
    ++used;
  }
  if (outputs_used != nullptr) *outputs_used = used;
  r %= total;

  const std::size_t lanes = lane_count(weights.size());
  std::uint64_t cumulative = 0;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    for (std::size_t column = lane; column < weights.size(); column += lanes) {
      cumulative += weights[column];
      if (cumulative > r) return static_cast<std::int64_t>(column);
    }
  }
  return -1;
}

float acceptance_uniform(std::uint32_t word) {
  return static_cast<float>(word) * 0x1p-32F + 0x1p-33F;
}

float gumbel_noise(std::uint32_t word) {
  const double u = (static_cast<double>(word) + 0.5) * 0x1p-32;
  return static_cast<float>(-log_f64(-log_f64(u)));
}

std::uint32_t coupled_word(std::uint64_t seed, std::int64_t position, TokenId token) {
  const auto id = static_cast<std::uint32_t>(token);
  return coupled_block(seed, position, id / 4)[id % 4];
}

std::int64_t draw_coupled(std::span<const float> logp, std::span<const TokenId> columns,
                          std::uint64_t seed, std::int64_t position) {
  std::int64_t best = -1;
  float best_value = 0.0F;
  std::array<std::uint32_t, 4> block{};
  std::int64_t block_index = -1;
  for (std::size_t column = 0; column < logp.size(); ++column) {
    if (logp[column] == -std::numeric_limits<float>::infinity()) continue;
    const auto id = columns.empty() ? static_cast<std::uint32_t>(column)
                                    : static_cast<std::uint32_t>(columns[column]);
    if (block_index != static_cast<std::int64_t>(id / 4)) {
      block_index = static_cast<std::int64_t>(id / 4);
      block = coupled_block(seed, position, id / 4);
    }
    const float value = logp[column] + gumbel_noise(block[id % 4]);
    if (best < 0 || value > best_value) {
      best = static_cast<std::int64_t>(column);
      best_value = value;
    }
  }
  return best;
}

}  // namespace deepinfer
