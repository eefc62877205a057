#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ops/cpu/attention.h"
#include "ops/cpu/matmul.h"
#include "ops/cpu/scratch.h"
#include "ops/ops.h"
#include "ops/scalar_kernels.h"

namespace deepinfer {

/// Highway kernels over a thread pool, bit-equal to the reference back end. Owns grow-only scratch:
/// after the largest step no op allocates. One op at a time; work is split statically, and no split
/// touches the order of any sum, so the number of threads changes no bit.
class CpuOps final : public Ops {
 public:
  /// `pool` must outlive this.
  explicit CpuOps(ThreadPool& pool);

  std::string_view name() const override { return "cpu"; }

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

 private:
  /// Scratch of one thread.
  struct Worker {
    cpu::MatmulScratch matmul;
    cpu::AttentionScratch attention;
    cpu::IndexScratch index;
    cpu::GrowBuffer<float> row;
    cpu::GrowBuffer<float> part;
    cpu::GrowBuffer<float*> part_rows;
    cpu::GrowBuffer<std::byte> record;
    std::vector<std::int32_t> entries;
    std::vector<float> scores;
    std::vector<ScoredEntry> scored;
    std::vector<ScoredEntry> blocks;
  };

  /// The (token, slot) pairs of a step, grouped by expert; the shared expert comes first.
  struct MoePlan {
    struct Job {
      const ExpertWeights* expert = nullptr;
      std::int64_t first = 0;  ///< pairs [first, first + count)
      std::int64_t count = 0;
    };
    std::vector<Job> jobs;
    std::int64_t width = 0;                   ///< intermediate size of the widest expert
    std::vector<std::int32_t> used;           ///< expert ids, ascending
    std::vector<std::int64_t> expert_start;   ///< counting sort
    std::vector<std::int64_t> position;       ///< pair (t * top_k + slot) -> place in the grouping
    std::vector<const float*> x;              ///< by place: the token's row
    std::vector<float> weight;                ///< by place
    std::vector<float*> activation_rows;      ///< by place
    std::vector<const float*> activation_in;  ///< by place
    cpu::GrowBuffer<float> activation;
  };

  /// parallel_for without the allocation that a std::function of a large closure makes.
  template <typename Body>
  void parallel(std::int64_t count, std::int64_t grain, const Body& body) {
    pool_.parallel_for(count, grain, std::cref(body));
  }
  Worker& worker(int thread) { return workers_[static_cast<std::size_t>(thread)]; }

  void plan_moe(ConstMatrix x, std::span<const std::int32_t> experts,
                std::span<const float> weights, std::int64_t top_k, const ExpertArray& routed,
                const ExpertWeights& shared);
  void moe_activations(std::int64_t first, std::int64_t last, float limit, Worker& worker);
  void moe_outputs(std::int64_t first, std::int64_t last, std::int64_t top_k, Matrix y,
                   Worker& worker);
  void list_entries(std::int64_t t, std::int32_t visible, const IndexSelectParams& params,
                    std::span<const std::int32_t> blocks, std::vector<std::int32_t>& entries);
  void select_entries(std::int64_t t, const IndexSelectParams& params,
                      std::span<std::int32_t> blocks, std::span<std::int32_t> selected,
                      Worker& worker);

  ThreadPool& pool_;
  std::vector<Worker> workers_;
  std::vector<const float*> x_rows_;
  std::vector<float*> y_rows_;
  cpu::GrowBuffer<float> products_;
  MoePlan moe_;
};

}  // namespace deepinfer
