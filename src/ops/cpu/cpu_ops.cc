#include "ops/cpu/cpu_ops.h"

#include <algorithm>
#include <cstring>

#include "ops/cpu/vector_kernels.h"

namespace deepinfer {
namespace {

/// Rows a thread takes at least, so that a split costs less than it saves: about 16 Ki
/// multiply-adds, some microseconds. A multiple of the four rows that kernels take at once.
std::int64_t row_grain(std::int64_t cols, std::int64_t tokens) {
  const std::int64_t work = std::max<std::int64_t>(1, cols * tokens);
  return ((1 << 14) / work + 4) / 4 * 4;
}

/// Tokens a thread takes at least of an elementwise op over `cols` columns.
std::int64_t token_grain(std::int64_t cols) {
  return 1 + (1 << 13) / std::max<std::int64_t>(1, cols);
}

}  // namespace

CpuOps::CpuOps(ThreadPool& pool)
    : pool_(pool), workers_(static_cast<std::size_t>(pool.threads())) {}

void CpuOps::embed(std::span<const TokenId> ids, const LinearWeight& table, int streams, Matrix x) {
  const std::int64_t hidden = table.cols;
  parallel(x.rows, token_grain(x.cols), [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t t = first; t < last; ++t) {
      const TokenId id = ids[static_cast<std::size_t>(t)];
      float* const row = x.row(t);
      if (id >= 0 && id < table.rows) {
        cpu::decode_weight_row(table, id, row);
      } else {
        std::fill_n(row, hidden, 0.0F);
      }
      for (int s = 1; s < streams; ++s) std::copy_n(row, hidden, row + s * hidden);
    }
  });
}

void CpuOps::linear(ConstMatrix x, const LinearWeight& weight, Matrix y) {
  grouped_linear(x, weight, 1, y);
}

void CpuOps::grouped_linear(ConstMatrix x, const LinearWeight& weight, std::int64_t groups,
                            Matrix y) {
  const std::int64_t out = weight.rows / groups;
  const std::int64_t tokens = x.rows;
  x_rows_.resize(static_cast<std::size_t>(groups * tokens));
  y_rows_.resize(static_cast<std::size_t>(groups * tokens));
  for (std::int64_t g = 0; g < groups; ++g) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      x_rows_[static_cast<std::size_t>(g * tokens + t)] = x.row(t) + g * weight.cols;
      y_rows_[static_cast<std::size_t>(g * tokens + t)] = y.row(t) + g * out;
    }
  }
  parallel(out * groups, row_grain(weight.cols, tokens),
           [&](std::int64_t first, std::int64_t last, int thread) {
             for (std::int64_t g = first / out; g * out < last; ++g) {
               const cpu::MatmulJob job{weight.rows_from(g * out, out), x_rows_.data() + g * tokens,
                                        y_rows_.data() + g * tokens, tokens};
               cpu::matmul_rows(job, std::max<std::int64_t>(first - g * out, 0),
                                std::min(last - g * out, out), worker(thread).matmul);
             }
           });
}

void CpuOps::rms_norm(ConstMatrix x, std::span<const float> weight, float eps, Matrix y) {
  parallel(x.rows, token_grain(x.cols), [&](std::int64_t first, std::int64_t last, int) {
    cpu::rms_norm_rows(x, weight, eps, y, first, last);
  });
}

void CpuOps::hc_mixes(ConstMatrix x, const HyperConnectionWeights& weights,
                      const HyperConnectionParams& params, Matrix pre, Matrix post, Matrix comb) {
  const ConstMatrix& fn = weights.fn;
  if (fn.stride != fn.cols) fail_internal("hc_mixes: fn must be contiguous");
  const Matrix products(products_.reserve(x.rows * fn.rows), x.rows, fn.rows);
  linear(
      x,
      {WeightFormat::kF32, reinterpret_cast<const std::byte*>(fn.data), nullptr, fn.rows, fn.cols},
      products);
  parallel(x.rows, token_grain(x.cols), [&](std::int64_t first, std::int64_t last, int) {
    cpu::hc_finish_rows(x, products, weights, params, pre, post, comb, first, last);
  });
}

void CpuOps::hc_collapse_norm(ConstMatrix x, ConstMatrix p, std::span<const float> norm, float eps,
                              Matrix v) {
  parallel(x.rows, token_grain(x.cols), [&](std::int64_t first, std::int64_t last, int) {
    cpu::hc_collapse_norm_rows(x, p, norm, eps, v, first, last);
  });
}

void CpuOps::hc_expand(Matrix x, ConstMatrix y, ConstMatrix post, ConstMatrix comb) {
  if (post.cols > cpu::kMaxStreams) {
    fail_internal("hc_expand: " + std::to_string(post.cols) +
                  " streams; the CPU back end has room for " + std::to_string(cpu::kMaxStreams));
  }
  parallel(x.rows, token_grain(x.cols), [&](std::int64_t first, std::int64_t last, int) {
    cpu::hc_expand_rows(x, y, post, comb, first, last);
  });
}

void CpuOps::rope(Matrix x, std::int64_t heads, ConstMatrix cos, ConstMatrix sin, bool inverse) {
  parallel(x.rows, token_grain(2 * heads * cos.cols),
           [&](std::int64_t first, std::int64_t last, int) {
             cpu::rope_rows(x, heads, cos, sin, inverse, first, last);
           });
}

void CpuOps::store_records(ConstMatrix x, std::span<const std::int32_t> rows, CacheRows records) {
  parallel(x.rows, token_grain(x.cols), [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t row = rows.empty() ? i : rows[static_cast<std::size_t>(i)];
      if (row >= 0) encode_record(records.format, x.row_span(i), records.row(row));
    }
  });
}

void CpuOps::copy_records(ConstCacheRows from, std::span<const std::int32_t> rows, CacheRows to) {
  const auto bytes = static_cast<std::size_t>(record_bytes(from.format, from.dim));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0) continue;
    std::memcpy(to.row(rows[i]), from.row(static_cast<std::int64_t>(i)), bytes);
  }
}

void CpuOps::round_trip(Matrix x, std::int64_t dim, RecordFormat format) {
  if (format == RecordFormat::kF32) return;
  parallel(x.rows, token_grain(x.cols), [&](std::int64_t first, std::int64_t last, int thread) {
    std::byte* const record = worker(thread).record.reserve(record_bytes(format, dim));
    for (std::int64_t t = first; t < last; ++t) {
      for (std::int64_t col = 0; col < x.cols; col += dim) {
        const std::span<float> part{x.row(t) + col, static_cast<std::size_t>(dim)};
        encode_record(format, part, record);
        decode_record(format, record, part);
      }
    }
  });
}

void CpuOps::pool_pairs(ConstMatrix gate, ConstMatrix value, std::span<const PooledPair> pairs,
                        ConstMatrix state, Matrix out) {
  const std::int64_t dim = out.cols;
  parallel(static_cast<std::int64_t>(pairs.size()), token_grain(4 * dim),
           [&](std::int64_t first, std::int64_t last, int) {
             for (std::int64_t p = first; p < last; ++p) {
               const PooledPair& pair = pairs[static_cast<std::size_t>(p)];
               const bool in_step = pair.first >= 0;
               const float* const gate_a = in_step ? gate.row(pair.first) : state.row(pair.state);
               const float* const value_a =
                   in_step ? value.row(pair.first) : state.row(pair.state) + dim;
               cpu::pool_pair(gate_a, value_a, gate.row(pair.second), value.row(pair.second),
                              out.row(p), dim);
             }
           });
}

void CpuOps::store_pair_state(ConstMatrix gate, ConstMatrix value,
                              std::span<const std::int32_t> rows, Matrix state) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0) continue;
    const auto row = static_cast<std::int64_t>(i);
    float* const to = state.row(rows[i]);
    std::copy_n(gate.row(row), gate.cols, to);
    std::copy_n(value.row(row), value.cols, to + gate.cols);
  }
}

void CpuOps::route(ConstMatrix logits, std::span<const float> bias, std::span<const float> bias_vl,
                   std::span<const std::uint8_t> image, const RouterParams& params,
                   std::span<std::int32_t> experts, std::span<float> weights) {
  parallel(logits.rows, 1, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t t = first; t < last; ++t) {
      const bool is_image = !image.empty() && image[static_cast<std::size_t>(t)] != 0;
      route_row(logits.row_span(t), is_image ? bias_vl : bias, params,
                experts.data() + t * params.top_k, weights.data() + t * params.top_k);
    }
  });
}

void CpuOps::engram_gate(Matrix x, ConstMatrix kv, std::span<const float> q_weight,
                         std::span<const float> k_weight, std::span<const std::uint8_t> active,
                         int streams, float eps, Matrix gates) {
  const std::int64_t hidden = x.cols / streams;
  parallel(x.rows, token_grain(x.cols), [&](std::int64_t first, std::int64_t last, int thread) {
    float* const weighted = worker(thread).row.reserve(hidden);
    for (std::int64_t t = first; t < last; ++t) {
      if (active[static_cast<std::size_t>(t)] == 0) continue;
      cpu::engram_gate_row(x.row(t), kv.row(t), q_weight.data(), k_weight.data(), hidden, streams,
                           eps, gates.rows > 0 ? gates.row(t) : nullptr, weighted);
    }
  });
}

std::unique_ptr<Ops> make_cpu_ops(ThreadPool& pool) { return std::make_unique<CpuOps>(pool); }

}  // namespace deepinfer
