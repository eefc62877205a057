#pragma once

#include <cstdint>
#include <vector>

#include "base/numerics.h"
#include "base/tensor.h"
#include "cache/store/cache_store.h"
#include "checkpoint/config.h"
#include "model/engram_hash.h"
#include "model/step_batch.h"
#include "model/step_layout.h"
#include "model/weights.h"
#include "ops/ops.h"

namespace deepinfer {

struct ModelOptions {
  NumericsProfile numerics = NumericsProfile::kExactCache;
  std::int64_t max_tokens = 2048;  ///< rows of the largest step; step buffers are sized once for it
};

/// The forward pass over one ragged step, once, against `Ops` (model.md 1). Holds the step buffers,
/// so one Model runs one step at a time; caches and weights belong to the caller.
class Model {
 public:
  /// `token_map` is the Engram vocabulary map, empty for a model without Engram. Weights, layout
  /// and ops must outlive the model. Throws Error(kUnsupported) for a profile that `ops` lacks.
  Model(const ModelConfig& config, const ModelWeights& weights, const CacheLayout& layout, Ops& ops,
        std::vector<std::int32_t> token_map, const ModelOptions& options);

  const ModelConfig& config() const { return config_; }
  std::int64_t max_tokens() const { return options_.max_tokens; }

  /// Runs all rows of `batch` through all layers, updates the caches, and writes one row of
  /// `logits` [logits_rows, vocab] for each wanted row.
  void forward(const StepBatch& batch, CacheStore& caches, Matrix logits,
               ForwardObserver* observer = nullptr);

 private:
  void run_layer(int layer, const StepBatch& batch, CacheStore& caches, ForwardObserver* observer);
  void run_engram(int layer, const StepBatch& batch, ForwardObserver* observer);
  void run_attention(int layer, CacheStore& caches, const StepBatch& batch,
                     ForwardObserver* observer);
  void run_compressor(int layer, CacheStore& caches);
  void run_index_keys(int layer, CacheStore& caches);
  void run_indexer(int layer, CacheStore& caches, const StepBatch& batch,
                   ForwardObserver* observer);
  void run_moe(int layer, ForwardObserver* observer);
  void run_head(const StepBatch& batch, Matrix logits, ForwardObserver* observer);

  PagedRows paged(ConstCacheRows pool, int ratio, const StepBatch& batch) const;

  /// A step buffer: rows [0, tokens) of it are in use.
  struct Buffer {
    std::vector<float> values;
    std::int64_t cols = 0;
    void reserve(std::int64_t rows, std::int64_t columns);
    Matrix view(std::int64_t rows) { return {values.data(), rows, cols}; }
  };

  const ModelConfig& config_;
  const ModelWeights& weights_;
  CacheLayout layout_;
  Ops& ops_;
  ModelOptions options_;
  HyperConnectionParams hc_params_;
  StepLayout step_;
  std::vector<EngramHash> engram_hash_;  ///< one, or none without Engram
  std::vector<std::uint8_t> all_active_;

  std::int64_t tokens_ = 0;
  Buffer streams_, pre_, next_pre_, post_, comb_, site_in_, site_out_;
  Buffer q_latent_, query_, kv_, attended_, o_latent_;
  Buffer gate_, value_, entries_, latent_, index_key_, index_query_, index_weights_;
  Buffer router_, engram_rows_, engram_kv_, gates_, head_streams_, head_pre_, hidden_;
  std::vector<std::byte> fresh_records_;
  std::vector<std::int32_t> selected_, blocks_, experts_;
  std::vector<float> expert_weights_;
  std::vector<std::int64_t> hash_rows_;
};

}  // namespace deepinfer
