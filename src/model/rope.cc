#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/math.h"

namespace deepinfer {
namespace {

/// theta^(2i/R), the wavelength over 2 pi, rounded to float32 as the exponent is. The frequencies
/// of the model are float32 results of float32 steps: at position 300 a frequency that is exact to
/// float64 moves angles by 1e-5, enough to move quantized cache values away from the golden data.
float wavelength(double theta, int i, int rotary) {
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotary);
  return static_cast<float>(exp_f64(static_cast<double>(exponent) * log_f64(theta)));
}

}  // namespace

std::vector<float> plain_rope_frequencies(const ModelConfig& config) {
  const int rotary = config.qk_rope_head_dim;
  std::vector<float> frequencies(static_cast<std::size_t>(rotary / 2));
  for (int i = 0; i < rotary / 2; ++i) {
    frequencies[static_cast<std::size_t>(i)] = 1.0F / wavelength(config.rope_theta, i, rotary);
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
  std::vector<float> frequencies(static_cast<std::size_t>(rotary / 2));
  for (int i = 0; i < rotary / 2; ++i) {
    const float length = wavelength(theta, i, rotary);
    const float ramp = std::clamp(
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0F,
        1.0F);
    const float keep = 1.0F - ramp;  // of the original frequency
    const float stretched = 1.0F / (static_cast<float>(yarn.factor) * length);
    frequencies[static_cast<std::size_t>(i)] = stretched * (1.0F - keep) + 1.0F / length * keep;
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
