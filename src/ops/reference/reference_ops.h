#pragma once

#include <vector>

#include "ops/ops.h"

namespace deepinfer {

/// Plain loops, single-threaded: docs/numerics.md as code. Split over files by what the ops do.
class ReferenceOps final : public Ops {
 public:
  std::string_view name() const override { return "reference"; }

  void embed(std::span<const TokenId> ids, const LinearWeight& table, int streams,
             Matrix x) override;
  void linear(ConstMatrix x, const LinearWeight& weight, Matrix y) override;
  void grouped_linear(ConstMatrix x, const LinearWeight& weight, std::int64_t groups,
                      Matrix y) override;
  void rms_norm(ConstMatrix x, std::span<const float> weight, float eps, Matrix y) override;
  void hc_mixes(ConstMatrix x, const HyperConnectionWeights& weights,
                const HyperConnectionParams& params, Matrix pre, Matrix post, Matrix comb) override;
  void hc_collapse_norm(ConstMatrix x, ConstMatrix p, std::span<const float> norm, float eps,
                        Matrix v) override;
  void hc_expand(Matrix x, ConstMatrix y, ConstMatrix post, ConstMatrix comb) override;
  void rope(Matrix x, std::int64_t heads, ConstMatrix cos, ConstMatrix sin, bool inverse) override;
  void store_records(ConstMatrix x, std::span<const std::int32_t> rows, CacheRows records) override;
  void copy_records(ConstCacheRows from, std::span<const std::int32_t> rows, CacheRows to) override;
  void round_trip(Matrix x, std::int64_t dim, RecordFormat format) override;
  void attention(ConstMatrix q, std::int64_t heads, const AttentionKeys& keys,
                 std::span<const float> sink, float scale, Matrix out) override;
  void pool_pairs(ConstMatrix gate, ConstMatrix value, std::span<const PooledPair> pairs,
                  ConstMatrix state, Matrix out) override;
  void store_pair_state(ConstMatrix gate, ConstMatrix value, std::span<const std::int32_t> rows,
                        Matrix state) override;
  void index_select(ConstMatrix query, ConstMatrix weights, const PagedRows& keys,
                    std::span<const std::int32_t> sequence, std::span<const std::int32_t> visible,
                    const IndexSelectParams& params, std::span<std::int32_t> blocks,
                    std::span<std::int32_t> selected) override;
  void route(ConstMatrix logits, std::span<const float> bias, std::span<const float> bias_vl,
             std::span<const std::uint8_t> image, const RouterParams& params,
             std::span<std::int32_t> experts, std::span<float> weights) override;
  void moe(ConstMatrix x, std::span<const std::int32_t> experts, std::span<const float> weights,
           std::int64_t top_k, const ExpertArray& routed, const ExpertWeights& shared, float limit,
           Matrix y) override;
  void engram_gate(Matrix x, ConstMatrix kv, std::span<const float> q_weight,
                   std::span<const float> k_weight, std::span<const std::uint8_t> active,
                   int streams, float eps, Matrix gates) override;
};

}  // namespace deepinfer
