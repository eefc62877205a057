#include <cmath>

#include "base/math.h"
#include "ops/reference/reference_ops.h"
#include "ops/scalar_kernels.h"

namespace deepinfer {

void ReferenceOps::hc_mixes(ConstMatrix x, const HyperConnectionWeights& weights,
                            const HyperConnectionParams& params, Matrix pre, Matrix post,
                            Matrix comb) {
  std::vector<float> m(static_cast<std::size_t>(weights.fn.rows));
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const auto row = x.row_span(t);
    const float r = 1.0F / std::sqrt(dot16(row, row) / static_cast<float>(x.cols) + params.rms_eps);
    for (std::size_t k = 0; k < m.size(); ++k) {
      m[k] = dot16(weights.fn.row_span(static_cast<std::int64_t>(k)), row) * r;
    }
    finish_hc_mixes(m, weights, params, pre.row(t), post.row(t), comb.row(t));
  }
}

void ReferenceOps::hc_collapse_norm(ConstMatrix x, ConstMatrix p, std::span<const float> norm,
                                    float eps, Matrix v) {
  const std::int64_t hidden = v.cols;
  for (std::int64_t t = 0; t < x.rows; ++t) {
    for (std::int64_t d = 0; d < hidden; ++d) {
      float u = p.row(t)[0] * x.row(t)[d];
      for (std::int64_t s = 1; s < p.cols; ++s) {
        u = std::fma(p.row(t)[s], x.row(t)[s * hidden + d], u);
      }
      v.row(t)[d] = u;
    }
  }
  rms_norm(v, norm, eps, v);
}

void ReferenceOps::hc_expand(Matrix x, ConstMatrix y, ConstMatrix post, ConstMatrix comb) {
  const std::int64_t streams = post.cols;
  const std::int64_t hidden = y.cols;
  std::vector<float> column(static_cast<std::size_t>(streams));
  for (std::int64_t t = 0; t < x.rows; ++t) {
    float* const row = x.row(t);
    for (std::int64_t d = 0; d < hidden; ++d) {
      for (std::int64_t j = 0; j < streams; ++j) {
        float value = post.row(t)[j] * y.row(t)[d];
        for (std::int64_t i = 0; i < streams; ++i) {
          value = std::fma(comb.row(t)[i * streams + j], row[i * hidden + d], value);
        }
        column[j] = value;
      }
      for (std::int64_t j = 0; j < streams; ++j) row[j * hidden + d] = column[j];
    }
  }
}

}  // namespace deepinfer
