#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/config.h"

namespace deepinfer {

/// The constants of one Engram layer's hash (model.md 9.2-9.4).
struct EngramLayerTables {
  int layer = 0;
  /// One prime per column, size-major then head: [(n - 2) * heads + head].
  std::vector<std::int64_t> primes;
  /// First row of each column's bucket: sum of the primes before it.
  std::vector<std::int64_t> offsets;
  /// One odd number per look-back 0..N-1.
  std::vector<std::int64_t> multipliers;
  /// Rows of the table: sum of the primes.
  std::int64_t rows = 0;
};

/// One entry per engram layer, in list order.
struct EngramTables {
  std::vector<EngramLayerTables> layers;
};

/// The primes of all Engram layers, [layer][column] (model.md 9.2). Needs only the engram_* sizes
/// of the configuration, not engram_num_embeddings.
std::vector<std::vector<std::int64_t>> engram_primes(const ModelConfig& config);

/// The look-back multipliers of one layer (model.md 9.3): what NumPy's
/// `default_rng(10007 * layer).integers(0, B, size=count)` gives, doubled plus one.
/// `compressed_vocab_size` in [1, 2^30].
std::vector<std::int64_t> engram_multipliers(int layer, int compressed_vocab_size, int count);

/// Everything together. Empty for a model without Engram.
EngramTables engram_tables(const ModelConfig& config);

}  // namespace deepinfer
