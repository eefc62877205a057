#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.h"
#include "checkpoint/config.h"

namespace deepinfer {

/// Base frequencies f_i = theta^(-2i/R), R/2 of them (model.md 6.1), for layers of ratio 0.
std::vector<float> plain_rope_frequencies(const ModelConfig& config);

/// YaRN frequencies over compress_rope_theta, for layers of ratio > 0.
std::vector<float> yarn_rope_frequencies(const ModelConfig& config);

/// cos[i][j], sin[i][j] of float32(positions[i] * frequencies[j]).
void fill_rope_angles(std::span<const std::int32_t> positions, std::span<const float> frequencies,
                      Matrix cos, Matrix sin);

}  // namespace deepinfer
