#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/tensor.h"
#include "base/thread_pool.h"
#include "ops/cache_rows.h"
#include "ops/weights.h"

namespace deepinfer {

/// Hyper-connection parameters of one site (model.md 5).
struct HyperConnectionWeights {
  ConstMatrix fn;                ///< [S(S+2), S*H] float32
  std::span<const float> base;   ///< [S(S+2)]
  std::span<const float> scale;  ///< [3]
};

struct HyperConnectionParams {
  int streams = 4;
  int sinkhorn_iterations = 20;
  float eps = 1e-6F;
  float rms_eps = 1e-20F;
};

/// Where the keys of each query row lie. Window keys come first, in increasing position: ring
/// records of earlier steps, then rows of this step; then compressed entries in increasing index.
struct AttentionKeys {
  ConstCacheRows ring;                      ///< window KV of earlier steps
  std::span<const std::int32_t> ring_rows;  ///< [T, ring_width] ring rows, -1 = none
  std::int64_t ring_width = 0;
  ConstCacheRows fresh;  ///< window KV of this step, record i = row i
  std::span<const std::int32_t>
      fresh_first;  ///< [T] first fresh row a query sees; it sees up to its own
  const PagedRows* compressed = nullptr;  ///< null for layers without compressed KV
  std::span<const std::int32_t>
      selected;  ///< [T, selected_width] logical entries, ascending, -1 padded
  std::int64_t selected_width = 0;
  std::span<const std::int32_t> sequence;  ///< [T] row of the block table
};

/// One closed group of two tokens of the ratio-2 compressor. `first` is a row of this step, or -1
/// when the token's gate and value are in state row `state`.
struct PooledPair {
  std::int32_t first = -1;
  std::int32_t state = -1;
  std::int32_t second = 0;
};

/// Two-level search (model.md 7.4). kNone scores all visible entries; kPublish also writes the kept
/// blocks; kUse scores only entries inside them.
enum class CandidateMode : std::uint8_t { kNone, kPublish, kUse };

struct IndexSelectParams {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t top_k = 0;
  CandidateMode candidates = CandidateMode::kNone;
  std::int64_t candidate_blocks = 0;
  std::int64_t candidate_block_size = 0;
};

struct RouterParams {
  std::int64_t top_k = 0;
  float scaling_factor = 1.0F;
};

/// The operation set of the model, one implementation a back end. Every op works on T rows (flat
/// tokens of one step), writes only its outputs, and follows docs/numerics.md. Shapes are row-major
/// float32 unless stated. That shapes fit together is the caller's business; StepLayout checks a
/// step's lists once.
class Ops {
 public:
  virtual ~Ops() = default;
  virtual std::string_view name() const = 0;

  /// X[t] = S copies of table row ids[t]; ids outside [0, table.rows) give zeros. X [T, S*H].
  virtual void embed(std::span<const TokenId> ids, const LinearWeight& table, int streams,
                     Matrix x) = 0;

  /// y [T, out] = x [T, in] W^T.
  virtual void linear(ConstMatrix x, const LinearWeight& weight, Matrix y) = 0;

  /// Block-diagonal linear: x [T, groups*in], weight viewed [groups][out/groups][in], y [T, out].
  virtual void grouped_linear(ConstMatrix x, const LinearWeight& weight, std::int64_t groups,
                              Matrix y) = 0;

  /// y = x * rsqrt(mean(x^2) + eps) * weight, per row. In place is allowed.
  virtual void rms_norm(ConstMatrix x, std::span<const float> weight, float eps, Matrix y) = 0;

  /// pre, post [T, S], comb [T, S*S] from X [T, S*H] (model.md 5).
  virtual void hc_mixes(ConstMatrix x, const HyperConnectionWeights& weights,
                        const HyperConnectionParams& params, Matrix pre, Matrix post,
                        Matrix comb) = 0;

  /// v [T, H] = RMSNorm(sum_s p[s] X[s]; norm).
  virtual void hc_collapse_norm(ConstMatrix x, ConstMatrix p, std::span<const float> norm,
                                float eps, Matrix v) = 0;

  /// X[j] = post[j] y + sum_i comb[i][j] X[i], in place.
  virtual void hc_expand(Matrix x, ConstMatrix y, ConstMatrix post, ConstMatrix comb) = 0;

  /// Rotates the last 2*cos.cols elements of each head in place; x [T, heads*dim], cos and sin
  /// [T, R/2]. `inverse` negates the sine.
  virtual void rope(Matrix x, std::int64_t heads, ConstMatrix cos, ConstMatrix sin,
                    bool inverse) = 0;

  /// Encodes row i of x [n, dim] into records.row(rows[i]); rows[i] < 0 skips. Empty `rows` means
  /// row i goes to record i.
  virtual void store_records(ConstMatrix x, std::span<const std::int32_t> rows,
                             CacheRows records) = 0;

  /// Copies record i of `from` to to.row(rows[i]); rows[i] < 0 skips. Same format and dim.
  virtual void copy_records(ConstCacheRows from, std::span<const std::int32_t> rows,
                            CacheRows to) = 0;

  /// x = decode(encode(x)) per group of `dim` columns: what a cache would return. kF32 leaves x.
  virtual void round_trip(Matrix x, std::int64_t dim, RecordFormat format) = 0;

  /// out [T, heads*dim] = attention of q [T, heads*dim] over `keys` with one sink logit a head.
  virtual void attention(ConstMatrix q, std::int64_t heads, const AttentionKeys& keys,
                         std::span<const float> sink, float scale, Matrix out) = 0;

  /// out[i] = softmax-weighted sum over the two tokens of pairs[i]; gate, value [T, D];
  /// state [rows, 2*D] holds gate then value of open groups.
  virtual void pool_pairs(ConstMatrix gate, ConstMatrix value, std::span<const PooledPair> pairs,
                          ConstMatrix state, Matrix out) = 0;

  /// Writes gate and value of row i to state row rows[i] ([2*D]); rows[i] < 0 skips.
  virtual void store_pair_state(ConstMatrix gate, ConstMatrix value,
                                std::span<const std::int32_t> rows, Matrix state) = 0;

  /// Scores the visible entries (index key records, paged) of each query and keeps the top_k, lower
  /// entry first among equals; selected [T, top_k] ascending, -1 padded. query [T, heads*dim],
  /// weights [T, heads]. `visible[t]` entries 0 .. visible-1 count. blocks [T, candidate_blocks] is
  /// written (kPublish) or read (kUse), ascending, -1 padded. Throws Error(kInternal) on NaN.
  virtual void index_select(ConstMatrix query, ConstMatrix weights, const PagedRows& keys,
                            std::span<const std::int32_t> sequence,
                            std::span<const std::int32_t> visible, const IndexSelectParams& params,
                            std::span<std::int32_t> blocks, std::span<std::int32_t> selected) = 0;

  /// Picks top_k experts a row by sqrt(softplus(logit)) + bias (model.md 8.1), descending biased
  /// score. logits [T, E]; `image` [T] chooses bias_vl where non-zero (may be empty);
  /// experts, weights [T, top_k].
  virtual void route(ConstMatrix logits, std::span<const float> bias,
                     std::span<const float> bias_vl, std::span<const std::uint8_t> image,
                     const RouterParams& params, std::span<std::int32_t> experts,
                     std::span<float> weights) = 0;

  /// y [T, H] = shared(x) + sum over slots of expert(x) (model.md 8.2); limit 0 = no clamp.
  virtual void moe(ConstMatrix x, std::span<const std::int32_t> experts,
                   std::span<const float> weights, std::int64_t top_k, const ExpertArray& routed,
                   const ExpertWeights& shared, float limit, Matrix y) = 0;

  /// X[s] += gate * value (model.md 9.5); kv [T, (S+1)*H] keys then value; q_weight, k_weight
  /// [S, H]; rows with active[t] == 0 stay. gates [T, S] is written when it has rows.
  virtual void engram_gate(Matrix x, ConstMatrix kv, std::span<const float> q_weight,
                           std::span<const float> k_weight, std::span<const std::uint8_t> active,
                           int streams, float eps, Matrix gates) = 0;
};

/// The plain-loop back end: the shortest code that follows docs/numerics.md. Single-threaded.
std::unique_ptr<Ops> make_reference_ops();

/// The SIMD back end; `pool` must outlive it. Bit-equal to the reference.
std::unique_ptr<Ops> make_cpu_ops(ThreadPool& pool);

}  // namespace deepinfer
