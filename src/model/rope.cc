#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/math.h"

namespace deepinfer {
namespace {

/// theta^(-2i/R) in float64.
double base_frequency(double theta, int i, int rotary) {
  return exp_f64(-2.0 * i / rotary * log_f64(theta));
}

}  // namespace

std::vector<float> plain_rope_frequencies(const ModelConfig& config) {
  const int rotary = config.qk_rope_head_dim;
  std::vector<float> frequencies;
  for (int i = 0; i < rotary / 2; ++i) {
    frequencies.push_back(static_cast<float>(base_frequency(config.rope_theta, i, rotary)));
  }
  return frequencies;
}

std::vector<float> yarn_rope_frequencies(const ModelConfig& config) {
  const int rotary = config.qk_rope_head_dim;
  const double theta = config.compress_rope_theta;
  const RopeScaling& yarn = config.rope_scaling;
  // The dimension whose wavelength makes `rotations` turns over the original context.
  const auto dim_for = [&](double rotations) {
    return rotary *
           log_f64(yarn.original_max_position_embeddings / (2.0 * std::numbers::pi * rotations)) /
           (2.0 * log_f64(theta));
  };
  const double low = std::max(std::floor(dim_for(yarn.beta_fast)), 0.0);
  double high = std::min(std::ceil(dim_for(yarn.beta_slow)), rotary - 1.0);
  if (low == high) high += 0.001;
  std::vector<float> frequencies;
  for (int i = 0; i < rotary / 2; ++i) {
    const double base = base_frequency(theta, i, rotary);
    const double ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);
    frequencies.push_back(static_cast<float>(base / yarn.factor * ramp + base * (1.0 - ramp)));
  }
  return frequencies;
}

void fill_rope_angles(std::span<const std::int32_t> positions, std::span<const float> frequencies,
                      Matrix cos, Matrix sin) {
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    for (std::size_t j = 0; j < frequencies.size(); ++j) {
      const float angle = static_cast<float>(positions[i]) * frequencies[j];
      const SinCos value = sincos_f64(static_cast<double>(angle));
      cos.row(row)[j] = static_cast<float>(value.cos);
      sin.row(row)[j] = static_cast<float>(value.sin);
    }
  }
}

}  // namespace deepinfer
