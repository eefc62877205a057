#include "model/step_layout.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace deepinfer {
namespace {

using Ints = std::vector<std::int32_t>;

Ints list(std::span<const std::int32_t> values) { return {values.begin(), values.end()}; }

/// Window 4, blocks of 4 tokens, rotary 2.
class StepLayoutTest : public testing::Test {
 protected:
  StepLayoutTest() {
    config_.sliding_window = 4;
    config_.qk_rope_head_dim = 2;
    config_.head_dim = 32;
    config_.rope_theta = 10000;
    config_.compress_rope_theta = 160000;
    config_.rope_scaling = {4, 32, 1, 64};
    config_.compress_ratios = {0};
  }

  StepLayout prepare(const std::vector<SequenceRows>& sequences, const Ints& table,
                     std::int64_t max_blocks) {
    CacheOptions options;
    options.tokens_per_block = 4;
    std::int32_t tokens = 0;
    for (const SequenceRows& rows : sequences) tokens += rows.rows;
    const std::vector<TokenId> ids(static_cast<std::size_t>(tokens));
    StepLayout layout(config_, CacheLayout(config_, options));
    StepBatch batch;
    batch.token_ids = ids;
    batch.sequences = sequences;
    batch.block_table = table;
    batch.max_blocks = max_blocks;
    layout.prepare(batch);
    return layout;
  }

  ModelConfig config_;
};

TEST_F(StepLayoutTest, SplitsTheWindowBetweenRingAndFreshRows) {
  // Slot 2 owns ring rows 8..11. Positions 5, 6, 7 after five cached ones.
  const StepLayout layout = prepare({{0, 3, 5, 2}}, {1, 2}, 2);
  EXPECT_EQ(list(layout.positions()), (Ints{5, 6, 7}));
  // Position 5 sees 2, 3, 4 in the ring; 6 sees 3, 4; 7 sees 4.
  EXPECT_EQ(list(layout.ring_rows()), (Ints{10, 11, 8, 11, 8, -1, 8, -1, -1}));
  EXPECT_EQ(list(layout.fresh_first()), (Ints{0, 0, 0}));
  EXPECT_EQ(list(layout.ring_store()), (Ints{9, 10, 11}));
}

TEST_F(StepLayoutTest, KeepsTheLastWindowOfALongChunk) {
  const StepLayout layout = prepare({{0, 6, 0, 1}}, {1, 2}, 2);
  EXPECT_EQ(list(layout.fresh_first()), (Ints{0, 0, 0, 0, 1, 2}));
  EXPECT_EQ(list(layout.ring_store()), (Ints{-1, -1, 6, 7, 4, 5}));
}

TEST_F(StepLayoutTest, ClosesGroupsAtAbsoluteEvenPositions) {
  // Positions 3, 4, 5: position 3 closes group 1 opened in an earlier step, 5 closes group 2.
  const StepLayout layout = prepare({{0, 3, 3, 1}}, {7, 9}, 2);
  const CompressionLayout& pairs = layout.compression(2);
  EXPECT_EQ(pairs.visible, (Ints{2, 2, 3}));
  EXPECT_EQ(pairs.positions, (Ints{2, 4}));
  // Two entries a block: entry 1 is the second of block 7, entry 2 the first of block 9.
  EXPECT_EQ(pairs.pool_rows, (Ints{15, 18}));
  ASSERT_EQ(pairs.pairs.size(), 2U);
  EXPECT_EQ(pairs.pairs[0].first, -1);
  EXPECT_EQ(pairs.pairs[0].state, 2);  // slot 1, position 2 mod 2
  EXPECT_EQ(pairs.pairs[0].second, 0);
  EXPECT_EQ(pairs.pairs[1].first, 1);
  EXPECT_EQ(pairs.pairs[1].second, 2);
  EXPECT_EQ(pairs.state_rows, (Ints{-1, 2, 3}));

  const CompressionLayout& single = layout.compression(1);
  EXPECT_EQ(single.visible, (Ints{4, 5, 6}));
  EXPECT_EQ(single.pool_rows, (Ints{31, 36, 37}));
}

TEST_F(StepLayoutTest, KeepsSequencesApart) {
  const StepLayout layout = prepare({{0, 1, 9, 1}, {1, 2, 0, 2}}, {1, 2, 3, 4, 0, 0}, 3);
  EXPECT_EQ(list(layout.sequence()), (Ints{0, 1, 1}));
  EXPECT_EQ(list(layout.fresh_first()), (Ints{0, 1, 1}));
  EXPECT_EQ(list(layout.ring_store()), (Ints{5, 8, 9}));
  EXPECT_EQ(layout.compression(1).pool_rows, (Ints{13, 16, 17}));
}

TEST_F(StepLayoutTest, RefusesRowsThatDoNotFitTogether) {
  EXPECT_THROW(prepare({{1, 1, 0, 1}}, {1}, 1), Error);
  EXPECT_THROW(prepare({{0, 5, 0, 1}}, {1}, 1), Error);
}

}  // namespace
}  // namespace deepinfer
