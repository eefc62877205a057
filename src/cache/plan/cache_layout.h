#pragma once

#include <cstdint>
#include <vector>

#include "base/numerics.h"
#include "checkpoint/config.h"
#include "ops/cache_rows.h"

namespace deepinfer {

struct CacheOptions {
  NumericsProfile numerics = NumericsProfile::kExactCache;
  int tokens_per_block = 128;  ///< even, so that a block never cuts a group of two tokens
  int max_backtracking = 0;  ///< positions a sequence may be rolled back (drafts); widens the rings
};

/// Pure arithmetic over the caches of a model: record formats, sizes, rows. Shared by the planner,
/// the store, the model and tests (model.md 4.6; engine.md 16.7).
class CacheLayout {
 public:
  /// Throws Error(kInvalidArgument) naming the option when one is out of range.
  CacheLayout(const ModelConfig& config, const CacheOptions& options);

  RecordFormat window_format() const { return window_format_; }
  RecordFormat compressed_format() const { return compressed_format_; }
  RecordFormat index_format() const { return index_format_; }

  int tokens_per_block() const { return options_.tokens_per_block; }
  /// Records of one block at a source of ratio `ratio`.
  int entries_per_block(int ratio) const { return options_.tokens_per_block / ratio; }
  /// Blocks that hold `tokens` positions.
  std::int32_t blocks_for(std::int64_t tokens) const {
    return static_cast<std::int32_t>((tokens + tokens_per_block() - 1) / tokens_per_block());
  }

  /// Window ring slots of a sequence in each layer: position p lies in slot p mod ring_size.
  int ring_size() const { return ring_size_; }
  /// Slots of the open-group state of a ratio-2 source: position mod pair_ring_size.
  int pair_ring_size() const { return pair_ring_size_; }

  /// Bytes of one block over all sources, and of one sequence's state slot over all layers.
  std::int64_t block_bytes() const { return block_bytes_; }
  std::int64_t slot_bytes() const { return slot_bytes_; }

 private:
  CacheOptions options_;
  RecordFormat window_format_;
  RecordFormat compressed_format_;
  RecordFormat index_format_;
  int ring_size_;
  int pair_ring_size_;
  std::int64_t block_bytes_ = 0;
  std::int64_t slot_bytes_ = 0;
};

}  // namespace deepinfer
