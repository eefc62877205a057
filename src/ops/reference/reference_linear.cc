#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "ops/reference/reference_ops.h"

namespace deepinfer {

void ReferenceOps::embed(std::span<const TokenId> ids, const LinearWeight& table, int streams,
                         Matrix x) {
  const std::int64_t hidden = table.cols;
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const TokenId id = ids[static_cast<std::size_t>(t)];
    float* const row = x.row(t);
    if (id >= 0 && id < table.rows) {
      decode_row(table, id, row);
    } else {
      std::fill_n(row, hidden, 0.0F);
    }
    for (int s = 1; s < streams; ++s) std::copy_n(row, hidden, row + s * hidden);
  }
}

void ReferenceOps::linear(ConstMatrix x, const LinearWeight& weight, Matrix y) {
  std::vector<float> decoded(static_cast<std::size_t>(weight.cols));
  for (std::int64_t r = 0; r < weight.rows; ++r) {
    decode_row(weight, r, decoded.data());
    for (std::int64_t t = 0; t < x.rows; ++t) y.row(t)[r] = dot16(decoded, x.row_span(t));
  }
}

void ReferenceOps::grouped_linear(ConstMatrix x, const LinearWeight& weight, std::int64_t groups,
                                  Matrix y) {
  const std::int64_t out = weight.rows / groups;
  for (std::int64_t g = 0; g < groups; ++g) {
    const ConstMatrix part{x.data + g * weight.cols, x.rows, weight.cols, x.stride};
    linear(part, weight.rows_from(g * out, out), {y.data + g * out, y.rows, out, y.stride});
  }
}

void ReferenceOps::rms_norm(ConstMatrix x, std::span<const float> weight, float eps, Matrix y) {
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const auto row = x.row_span(t);
    const float r = 1.0F / std::sqrt(dot16(row, row) / static_cast<float>(x.cols) + eps);
    for (std::size_t i = 0; i < row.size(); ++i) y.row(t)[i] = (row[i] * r) * weight[i];
  }
}

}  // namespace deepinfer
