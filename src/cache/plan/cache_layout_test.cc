#include "cache/plan/cache_layout.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace deepinfer {
namespace {

/// The sizes of the released model that the caches depend on (model.md 3.4).
ModelConfig released_config() {
  ModelConfig config;
  config.num_hidden_layers = 40;
  config.num_nextn_predict_layers = 3;
  config.head_dim = 512;
  config.index_head_dim = 128;
  config.sliding_window = 128;
  config.compress_ratios = {0, 0};
  config.compress_ratios.insert(config.compress_ratios.end(), 18, 2);
  config.compress_ratios.insert(config.compress_ratios.end(), 20, 1);
  config.compress_ratios.insert(config.compress_ratios.end(), 3, 0);
  config.kv_source_layer_ids = {2, 8, 14, 20};
  config.index_k_source_layer_ids = {2, 8, 14, 20};
  return config;
}

TEST(CacheLayout, GivesTheReleasedModelItsPublishedCost) {
  const CacheLayout layout(released_config(), {});
  // model.md 14: 890 bytes a token of global KV.
  EXPECT_EQ(layout.block_bytes(), 890 * 128);
  EXPECT_EQ(record_bytes(layout.window_format(), 512), 528);
  EXPECT_EQ(record_bytes(layout.compressed_format(), 512), 288);
  EXPECT_EQ(record_bytes(layout.index_format(), 128), 68);
}

TEST(CacheLayout, WidensTheRingsByTheBacktracking) {
  CacheOptions options;
  options.max_backtracking = 6;
  const CacheLayout layout(released_config(), options);
  EXPECT_EQ(layout.ring_size(), 134);
  EXPECT_EQ(layout.pair_ring_size(), 7);
  // model.md 14: 43 layers x 134 x 528 bytes, and 84 KiB of compressor state.
  EXPECT_EQ(layout.slot_bytes(), 43LL * 134 * 528 + 84 * 1024);
}

TEST(CacheLayout, RefusesABlockThatCutsAGroup) {
  CacheOptions options;
  options.tokens_per_block = 127;
  EXPECT_THROW(CacheLayout(released_config(), options), Error);
  options.tokens_per_block = 0;
  EXPECT_THROW(CacheLayout(released_config(), options), Error);
}

}  // namespace
}  // namespace deepinfer
