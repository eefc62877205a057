#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/tensor.h"
#include "cache/plan/cache_layout.h"
#include "checkpoint/config.h"
#include "ops/cache_rows.h"

namespace deepinfer {

/// The memory of all caches: one window ring pool a layer, one compressed and one index-key pool a
/// source, and the open-group state of ratio-2 sources. Addressed by ids from cache/plan: block b
/// holds pool rows [b * entries_per_block, …), slot s holds ring rows [s * ring_size, …).
class CacheStore {
 public:
  /// `blocks` and `slots` count usable ids; id 0 exists in memory and is never used.
  CacheStore(const ModelConfig& config, const CacheLayout& layout, std::int32_t blocks,
             std::int32_t slots);

  const CacheLayout& layout() const { return layout_; }

  CacheRows ring(int layer) { return rings_.at(static_cast<std::size_t>(layer)).view(); }
  CacheRows compressed(int kv_source_layer) { return compressed_.at(kv_source_layer).view(); }
  CacheRows index_keys(int index_k_source_layer) {
    return index_keys_.at(index_k_source_layer).view();
  }
  /// [slots * pair_ring_size, 2 * head_dim]: gate, then value.
  Matrix pair_state(int kv_source_layer);

 private:
  struct Pool {
    RecordFormat format = RecordFormat::kF32;
    std::int64_t dim = 0;
    std::int64_t rows = 0;
    std::vector<std::byte> bytes;

    Pool(RecordFormat format_, std::int64_t dim_, std::int64_t rows_);
    CacheRows view() { return {bytes.data(), format, dim, rows, record_bytes(format, dim)}; }
  };

  CacheLayout layout_;
  std::int64_t head_dim_;
  std::vector<Pool> rings_;
  std::map<int, Pool> compressed_;
  std::map<int, Pool> index_keys_;
  std::map<int, std::vector<float>> pair_state_;
};

}  // namespace deepinfer
