#include "cache/plan/cache_layout.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace deepinfer {

CacheLayout::CacheLayout(const ModelConfig& config, const CacheOptions& options)
    : options_(options),
      ring_size_(config.sliding_window + options.max_backtracking),
      pair_ring_size_(2 + std::max(0, options.max_backtracking - 1)) {
  if (options.tokens_per_block < 2 || options.tokens_per_block % 2 != 0) {
    fail_argument("tokens_per_block: " + std::to_string(options.tokens_per_block) +
                  "; expected an even number of at least 2");
  }
  if (options.max_backtracking < 0) {
    fail_argument("max_backtracking: " + std::to_string(options.max_backtracking) +
                  "; expected 0 or more");
  }
  const bool exact = options.numerics == NumericsProfile::kExact;
  window_format_ = exact ? RecordFormat::kF32 : RecordFormat::kFp8Group32;
  compressed_format_ = exact                      ? RecordFormat::kF32
                       : config.use_fp4_sparse_kv ? RecordFormat::kFp4Group16E4M3
                                                  : RecordFormat::kFp8Group32;
  index_format_ = exact ? RecordFormat::kF32 : RecordFormat::kFp4Group32;

  for (const int layer : config.kv_source_layer_ids) {
    const std::int64_t entries = entries_per_block(config.ratio(layer));
    block_bytes_ += entries * record_bytes(compressed_format_, config.head_dim);
    if (config.ratio(layer) == 2) {
      slot_bytes_ += static_cast<std::int64_t>(pair_ring_size_) * 2 * config.head_dim * 4;
    }
  }
  for (const int layer : config.index_k_source_layer_ids) {
    block_bytes_ +=
        entries_per_block(config.ratio(layer)) * record_bytes(index_format_, config.index_head_dim);
  }
  const std::int64_t rings = config.num_hidden_layers + config.num_nextn_predict_layers;
  slot_bytes_ += rings * ring_size_ * record_bytes(window_format_, config.head_dim);
}

}  // namespace deepinfer
