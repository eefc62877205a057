#include "cache/store/cache_store.h"

namespace deepinfer {

CacheStore::Pool::Pool(RecordFormat format_, std::int64_t dim_, std::int64_t rows_)
    : format(format_),
      dim(dim_),
      rows(rows_),
      bytes(static_cast<std::size_t>(rows_ * record_bytes(format_, dim_))) {}

CacheStore::CacheStore(const ModelConfig& config, const CacheLayout& layout, std::int32_t blocks,
                       std::int32_t slots)
    : layout_(layout), head_dim_(config.head_dim) {
  const std::int64_t slot_count = static_cast<std::int64_t>(slots) + 1;
  const std::int64_t block_count = static_cast<std::int64_t>(blocks) + 1;
  for (int layer = 0; layer < config.num_hidden_layers; ++layer) {
    rings_.emplace_back(layout.window_format(), config.head_dim, slot_count * layout.ring_size());
  }
  for (const int layer : config.kv_source_layer_ids) {
    const int ratio = config.ratio(layer);
    compressed_.emplace(layer, Pool(layout.compressed_format(), config.head_dim,
                                    block_count * layout.entries_per_block(ratio)));
    if (ratio == 2) {
      pair_state_.emplace(layer, std::vector<float>(static_cast<std::size_t>(
                                     slot_count * layout.pair_ring_size() * 2 * config.head_dim)));
    }
  }
  for (const int layer : config.index_k_source_layer_ids) {
    index_keys_.emplace(layer, Pool(layout.index_format(), config.index_head_dim,
                                    block_count * layout.entries_per_block(config.ratio(layer))));
  }
}

Matrix CacheStore::pair_state(int kv_source_layer) {
  std::vector<float>& state = pair_state_.at(kv_source_layer);
  const std::int64_t width = 2 * head_dim_;
  return {state.data(), static_cast<std::int64_t>(state.size()) / width, width};
}

}  // namespace deepinfer
