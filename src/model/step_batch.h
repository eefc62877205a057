#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/tensor.h"

namespace deepinfer {

/// The rows of one sequence in a step: consecutive tokens at consecutive positions. Prefill chunks
/// and decode rows differ in `rows` only.
struct SequenceRows {
  std::int32_t first_row = 0;
  std::int32_t rows = 0;
  std::int32_t start_position = 0;  ///< position of the first row; earlier ones are in the caches
  std::int32_t state_slot = 0;      ///< rings and open-group state in the CacheStore
};

/// One step as flat arrays (architecture decision 1). Views; the caller keeps them alive.
struct StepBatch {
  std::span<const TokenId> token_ids;  ///< [T]
  /// [T, N] the row's token and its N-1 predecessors, nearest first, for the Engram hash; -1 where
  /// the sequence has none. N = engram_max_ngram_size; empty for models without Engram.
  std::span<const TokenId> ngram_ids;
  std::span<const SequenceRows> sequences;    ///< in row order, covering [0, T)
  std::span<const std::int32_t> block_table;  ///< [sequences, max_blocks]
  std::int64_t max_blocks = 0;
  std::span<const std::int32_t> logits_rows;  ///< rows whose logits are wanted, ascending
};

/// Sees intermediate values of a forward pass: tests, feature taps. Called on the thread that runs
/// it; views are valid during the call only.
class ForwardObserver {
 public:
  virtual ~ForwardObserver() = default;
  virtual void on_values(std::string_view name, int layer, ConstMatrix values) {}
  virtual void on_indices(std::string_view name, int layer, std::span<const std::int32_t> indices,
                          std::int64_t width) {}
  virtual void on_engram_rows(int layer, std::span<const std::int64_t> rows, std::int64_t width) {}
};

}  // namespace deepinfer
