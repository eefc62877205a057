#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "checkpoint/config.h"
#include "checkpoint/engram_primes.h"

namespace deepinfer {

/// Token ids to Engram table rows (model.md 9.4).
class EngramHash {
 public:
  /// `token_map[id]` is the compressed id of each vocabulary entry (model.md 9.1). Throws
  /// Error(kCheckpoint) when its size or its number of distinct ids is not what the config says.
  EngramHash(const ModelConfig& config, std::vector<std::int32_t> token_map);

  int columns() const { return columns_; }

  /// rows [T, columns] of Engram layer number `index` (position in engram_layer_ids) for
  /// ngrams [T, N], nearest token first. An id outside the vocabulary, -1 included, and all behind
  /// it count as padding.
  void rows(int index, std::span<const TokenId> ngrams, std::span<std::int64_t> rows) const;

 private:
  int ngram_size_;
  int heads_;
  int columns_;
  std::int32_t pad_ = 0;
  std::vector<std::int32_t> token_map_;
  EngramTables tables_;
};

}  // namespace deepinfer
