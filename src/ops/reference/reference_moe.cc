#include <algorithm>
#include <cmath>
#include <set>

#include "base/math.h"
#include "ops/reference/reference_ops.h"
#include "ops/scalar_kernels.h"

namespace deepinfer {
namespace {

/// y [1, H] = the expert's output for one token (model.md 8.2). `weight` multiplies before w2.
void run_expert(ReferenceOps& ops, ConstMatrix x, const ExpertWeights& expert, float weight,
                float limit, Matrix y) {
  std::vector<float> gate(static_cast<std::size_t>(expert.gate.rows));
  std::vector<float> up(gate.size());
  const auto width = static_cast<std::int64_t>(gate.size());
  ops.linear(x, expert.gate, {gate.data(), 1, width});
  ops.linear(x, expert.up, {up.data(), 1, width});
  for (std::size_t i = 0; i < gate.size(); ++i) {
    float g = gate[i];
    float u = up[i];
    if (limit > 0.0F) {
      g = std::min(g, limit);
      u = std::clamp(u, -limit, limit);
    }
    gate[i] = (g / (1.0F + exp_f32(-g)) * u) * weight;
  }
  ops.linear({gate.data(), 1, width}, expert.down, y);
}

}  // namespace

void ReferenceOps::route(ConstMatrix logits, std::span<const float> bias,
                         std::span<const float> bias_vl, std::span<const std::uint8_t> image,
                         const RouterParams& params, std::span<std::int32_t> experts,
                         std::span<float> weights) {
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    const bool is_image = !image.empty() && image[static_cast<std::size_t>(t)] != 0;
    route_row(logits.row_span(t), is_image ? bias_vl : bias, params,
              experts.data() + t * params.top_k, weights.data() + t * params.top_k);
  }
}

void ReferenceOps::moe(ConstMatrix x, std::span<const std::int32_t> experts,
                       std::span<const float> weights, std::int64_t top_k,
                       const ExpertArray& routed, const ExpertWeights& shared, float limit,
                       Matrix y) {
  if (routed.residency != nullptr) {
    const std::set<std::int32_t> used(experts.begin(), experts.end());
    routed.residency->require(std::vector<std::int32_t>(used.begin(), used.end()));
  }
  std::vector<float> part(static_cast<std::size_t>(y.cols));
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const ConstMatrix token = x.rows_from(t, 1);
    run_expert(*this, token, shared, 1.0F, limit, y.rows_from(t, 1));
    for (std::int64_t slot = 0; slot < top_k; ++slot) {
      const auto at = static_cast<std::size_t>(t * top_k + slot);
      run_expert(*this, token, routed.experts[static_cast<std::size_t>(experts[at])], weights[at],
                 limit, {part.data(), 1, y.cols});
      for (std::int64_t d = 0; d < y.cols; ++d) y.row(t)[d] += part[static_cast<std::size_t>(d)];
    }
  }
}

}  // namespace deepinfer
