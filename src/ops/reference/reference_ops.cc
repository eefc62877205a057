#include "ops/reference/reference_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/math.h"
#include "ops/scalar_kernels.h"

namespace deepinfer {

void ReferenceOps::rope(Matrix x, std::int64_t heads, ConstMatrix cos, ConstMatrix sin,
                        bool inverse) {
  const std::int64_t dim = x.cols / heads;
  const std::int64_t pairs = cos.cols;
  for (std::int64_t t = 0; t < x.rows; ++t) {
    for (std::int64_t h = 0; h < heads; ++h) {
      float* const tail = x.row(t) + (h + 1) * dim - 2 * pairs;
      for (std::int64_t i = 0; i < pairs; ++i) {
        const float c = cos.row(t)[i];
        const float s = inverse ? -sin.row(t)[i] : sin.row(t)[i];
        const float x0 = tail[2 * i];
        const float x1 = tail[2 * i + 1];
        tail[2 * i] = x0 * c - x1 * s;
        tail[2 * i + 1] = x0 * s + x1 * c;
      }
    }
  }
}

void ReferenceOps::store_records(ConstMatrix x, std::span<const std::int32_t> rows,
                                 CacheRows records) {
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const std::int64_t row = rows.empty() ? i : rows[static_cast<std::size_t>(i)];
    if (row >= 0) encode_record(records.format, x.row_span(i), records.row(row));
  }
}

void ReferenceOps::copy_records(ConstCacheRows from, std::span<const std::int32_t> rows,
                                CacheRows to) {
  const auto bytes = static_cast<std::size_t>(record_bytes(from.format, from.dim));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0) continue;
    std::memcpy(to.row(rows[i]), from.row(static_cast<std::int64_t>(i)), bytes);
  }
}

void ReferenceOps::round_trip(Matrix x, std::int64_t dim, RecordFormat format) {
  if (format == RecordFormat::kF32) return;
  std::vector<std::byte> record(static_cast<std::size_t>(record_bytes(format, dim)));
  for (std::int64_t t = 0; t < x.rows; ++t) {
    for (std::int64_t first = 0; first < x.cols; first += dim) {
      const std::span<float> part{x.row(t) + first, static_cast<std::size_t>(dim)};
      encode_record(format, part, record.data());
      decode_record(format, record.data(), part);
    }
  }
}

void ReferenceOps::pool_pairs(ConstMatrix gate, ConstMatrix value,
                              std::span<const PooledPair> pairs, ConstMatrix state, Matrix out) {
  const std::int64_t dim = out.cols;
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    const PooledPair& pair = pairs[p];
    const bool in_step = pair.first >= 0;
    const float* const gate_a = in_step ? gate.row(pair.first) : state.row(pair.state);
    const float* const value_a = in_step ? value.row(pair.first) : state.row(pair.state) + dim;
    const float* const gate_b = gate.row(pair.second);
    const float* const value_b = value.row(pair.second);
    float* const pooled = out.row(static_cast<std::int64_t>(p));
    for (std::int64_t d = 0; d < dim; ++d) {
      const float max = std::max(gate_a[d], gate_b[d]);
      const float a = exp_f32(gate_a[d] - max);
      const float b = exp_f32(gate_b[d] - max);
      const float sum = a + b;
      pooled[d] = std::fma(b / sum, value_b[d], (a / sum) * value_a[d]);
    }
  }
}

void ReferenceOps::store_pair_state(ConstMatrix gate, ConstMatrix value,
                                    std::span<const std::int32_t> rows, Matrix state) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0) continue;
    const auto row = static_cast<std::int64_t>(i);
    float* const to = state.row(rows[i]);
    std::copy_n(gate.row(row), gate.cols, to);
    std::copy_n(value.row(row), value.cols, to + gate.cols);
  }
}

void ReferenceOps::engram_gate(Matrix x, ConstMatrix kv, std::span<const float> q_weight,
                               std::span<const float> k_weight,
                               std::span<const std::uint8_t> active, int streams, float eps,
                               Matrix gates) {
  const std::int64_t hidden = x.cols / streams;
  const auto n = static_cast<float>(hidden);
  const float scale = 1.0F / std::sqrt(n);
  std::vector<float> weighted(static_cast<std::size_t>(hidden));
  for (std::int64_t t = 0; t < x.rows; ++t) {
    if (active[static_cast<std::size_t>(t)] == 0) continue;
    const float* const value = kv.row(t) + streams * hidden;
    for (int s = 0; s < streams; ++s) {
      const std::span<float> stream{x.row(t) + s * hidden, weighted.size()};
      const std::span<const float> key{kv.row(t) + s * hidden, weighted.size()};
      for (std::int64_t d = 0; d < hidden; ++d) {
        const std::int64_t at = s * hidden + d;
        weighted[d] = stream[d] * (q_weight[at] * k_weight[at]);
      }
      const float stream_r = 1.0F / std::sqrt(dot16(stream, stream) / n + eps);
      const float key_r = 1.0F / std::sqrt(dot16(key, key) / n + eps);
      const float gate = engram_gate_value(((dot16(weighted, key) * stream_r) * key_r) * scale);
      if (gates.rows > 0) gates.row(t)[s] = gate;
      for (std::int64_t d = 0; d < hidden; ++d) stream[d] = std::fma(gate, value[d], stream[d]);
    }
  }
}

std::unique_ptr<Ops> make_reference_ops() { return std::make_unique<ReferenceOps>(); }

}  // namespace deepinfer
