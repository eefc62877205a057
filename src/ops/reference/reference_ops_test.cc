#include "ops/reference/reference_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"
#include "ops/scalar_kernels.h"

namespace deepinfer {
namespace {

using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;

Matrix matrix(Floats& values, std::int64_t rows) {
  return {values.data(), rows, static_cast<std::int64_t>(values.size()) / rows};
}

LinearWeight f32_weight(const Floats& values, std::int64_t rows) {
  return {WeightFormat::kF32, reinterpret_cast<const std::byte*>(values.data()), nullptr, rows,
          static_cast<std::int64_t>(values.size()) / rows};
}

CacheRows f32_records(Floats& values, std::int64_t dim) {
  return {reinterpret_cast<std::byte*>(values.data()), RecordFormat::kF32, dim,
          static_cast<std::int64_t>(values.size()) / dim, dim * 4};
}

TEST(ReferenceOps, RoutesTheWorkedExample) {
  ReferenceOps ops;
  Floats logits = {0, 1, -2, 3};
  const Floats bias = {0.5F, 0, 0, -1};
  Ints experts(2);
  Floats weights(2);
  ops.route(matrix(logits, 1), bias, bias, {}, {2, 1.5F}, experts, weights);
  EXPECT_EQ(experts, (Ints{0, 1}));
  EXPECT_NEAR(weights[0], 0.631192F, 1e-6);
  EXPECT_NEAR(weights[1], 0.868808F, 1e-6);
}

TEST(ReferenceOps, RoutesImageTokensByTheirOwnBiasAndTiesToTheLowerExpert) {
  ReferenceOps ops;
  Floats logits = {1, 1, 1, 1, 1, 1, 1, 1};
  const Floats bias = {0, 0, 0, 0};
  const Floats bias_vl = {0, 0, 2, 1};
  const std::vector<std::uint8_t> image = {0, 1};
  Ints experts(4);
  Floats weights(4);
  ops.route(matrix(logits, 2), bias, bias_vl, image, {2, 1.0F}, experts, weights);
  EXPECT_EQ(experts, (Ints{0, 1, 2, 3}));
  for (const float weight : weights) EXPECT_NEAR(weight, 0.5F, 1e-6);
  logits[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(ops.route(matrix(logits, 2), bias, bias_vl, image, {2, 1.0F}, experts, weights),
               Error);
}

TEST(ReferenceOps, NormalisesMixesWithSinkhorn) {
  // Two streams; fn = 0 leaves the base alone: A = [[1, 0], [0, 2]] (model.md 5).
  ReferenceOps ops;
  const Floats fn(8 * 4, 0.0F);
  const Floats base = {0, 0, 0, 0, 1, 0, 0, 2};
  const Floats scale = {1, 1, 1};
  const HyperConnectionWeights weights{{fn.data(), 8, 4}, base, scale};
  Floats x = {1, 2, 3, 4};
  Floats pre(2);
  Floats post(2);
  Floats comb(4);
  ops.hc_mixes(matrix(x, 1), weights, {2, 1, 1e-6F, 1e-20F}, matrix(pre, 1), matrix(post, 1),
               matrix(comb, 1));
  const Floats first = {0.8598F, 0.2339F, 0.1402F, 0.7661F};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(comb[i], first[i], 1e-4) << i;
  EXPECT_NEAR(pre[0], 0.500001F, 1e-7);
  EXPECT_NEAR(post[1], 1.0F, 1e-7);
  ops.hc_mixes(matrix(x, 1), weights, {2, 20, 1e-6F, 1e-20F}, matrix(pre, 1), matrix(post, 1),
               matrix(comb, 1));
  const Floats last = {0.8176F, 0.1824F, 0.1824F, 0.8176F};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(comb[i], last[i], 1e-4) << i;
}

TEST(ReferenceOps, ExpandsOverTheFirstIndexOfTheMix) {
  ReferenceOps ops;
  Floats x = {10, 20};  // two streams of width 1
  Floats y = {1};
  Floats post = {0.5F, 2};
  Floats comb = {1, 2, 3, 4};
  ops.hc_expand(matrix(x, 1), matrix(y, 1), matrix(post, 1), matrix(comb, 1));
  EXPECT_EQ(x, (Floats{0.5F + 10 + 60, 2 + 20 + 80}));
}

TEST(ReferenceOps, AttendsOverRingFreshAndCompressedKeysInOrder) {
  ReferenceOps ops;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const std::int64_t dim = 4;
  Floats ring(3 * dim);
  Floats fresh(2 * dim);
  Floats pool(4 * dim);
  Floats query(2 * dim);
  for (Floats* values : {&ring, &fresh, &pool, &query}) {
    for (float& value : *values) value = normal(random);
  }
  const Ints ring_rows = {2, -1, 1, 2};
  const Ints fresh_first = {0, 0};
  const Ints selected = {1, -1, 0, 3};
  const Ints sequence = {0, 0};
  const Ints table = {1, 0};  // entry e of two-row blocks: rows 2, 3, then 0, 1
  const PagedRows compressed{f32_records(pool, dim), 2, table, 2};
  AttentionKeys keys{f32_records(ring, dim),
                     ring_rows,
                     2,
                     f32_records(fresh, dim),
                     fresh_first,
                     &compressed,
                     selected,
                     2,
                     sequence};
  const Floats sink = {0.3F};
  Floats out(2 * dim);
  ops.attention(matrix(query, 2), 1, keys, sink, 0.5F, matrix(out, 2));

  const auto expect_row = [&](std::int64_t t, const std::vector<const float*>& list) {
    double denominator = std::exp(0.3);
    std::vector<double> sum(dim);
    for (const float* key : list) {
      double score = 0;
      for (std::int64_t d = 0; d < dim; ++d) score += 0.5 * query[t * dim + d] * key[d];
      denominator += std::exp(score);
      for (std::int64_t d = 0; d < dim; ++d) sum[d] += std::exp(score) * key[d];
    }
    for (std::int64_t d = 0; d < dim; ++d) {
      EXPECT_NEAR(out[t * dim + d], sum[d] / denominator, 1e-5) << t << " " << d;
    }
  };
  expect_row(0, {&ring[2 * dim], fresh.data(), &pool[3 * dim]});
  expect_row(
      1, {&ring[dim], &ring[2 * dim], fresh.data(), &fresh[dim], &pool[2 * dim], &pool[1 * dim]});
}

TEST(ReferenceOps, PoolsAPairFromStateAndStep) {
  ReferenceOps ops;
  Floats gate = {0, 1};
  Floats value = {5, 7};
  Floats state = {2, 3};  // gate 2, value 3
  Floats out(2);
  const std::vector<PooledPair> pairs = {{-1, 0, 0}, {0, -1, 1}};
  ops.pool_pairs(matrix(gate, 2), matrix(value, 2), pairs, matrix(state, 1), matrix(out, 2));
  const double w = std::exp(2.0) / (std::exp(2.0) + 1);
  EXPECT_NEAR(out[0], w * 3 + (1 - w) * 5, 1e-6);
  const double v = 1 / (1 + std::exp(1.0));
  EXPECT_NEAR(out[1], v * 5 + (1 - v) * 7, 1e-6);
  ops.store_pair_state(matrix(gate, 2), matrix(value, 2), Ints{-1, 0}, matrix(state, 1));
  EXPECT_EQ(state, (Floats{1, 7}));
}

/// Keys of one dimension: the score of entry e is 2 * max(0, keys[e]).
class IndexSelect : public testing::Test {
 protected:
  Ints select(CandidateMode mode, Ints& blocks, std::int32_t visible) {
    IndexSelectParams params{1, 1, 3, mode, 2, 2};
    const Ints table = {0};
    const PagedRows paged{f32_records(keys_, 1), 16, table, 1};
    Floats query = {1};
    Floats weight = {2};
    Ints selected(3);
    ReferenceOps ops;
    ops.index_select(matrix(query, 1), matrix(weight, 1), paged, Ints{0}, Ints{visible}, params,
                     blocks, selected);
    return selected;
  }
  Floats keys_ = {1, 5, 5, 2, 9, 0, -3, 5};
};

TEST_F(IndexSelect, KeepsTheBestWithTiesToTheLowerEntry) {
  Ints none;
  EXPECT_EQ(select(CandidateMode::kNone, none, 8), (Ints{1, 2, 4}));
  EXPECT_EQ(select(CandidateMode::kNone, none, 3), (Ints{0, 1, 2}));
  EXPECT_EQ(select(CandidateMode::kNone, none, 2), (Ints{0, 1, -1}));
  EXPECT_EQ(select(CandidateMode::kNone, none, 0), (Ints{-1, -1, -1}));
}

TEST_F(IndexSelect, PublishesTheBestBlocksAndAlwaysTheLast) {
  Ints blocks(2);
  // Blocks (0,1) (2,3) (4,5) (6,7): maxima 5, 5, 9, 5; the last is forced.
  EXPECT_EQ(select(CandidateMode::kPublish, blocks, 8), (Ints{1, 2, 4}));
  EXPECT_EQ(blocks, (Ints{2, 3}));
  EXPECT_EQ(select(CandidateMode::kPublish, blocks, 1), (Ints{0, -1, -1}));
  EXPECT_EQ(blocks, (Ints{0, -1}));
}

TEST_F(IndexSelect, SearchesOnlyVisibleEntriesOfTheGivenBlocks) {
  Ints blocks = {1, 3};
  EXPECT_EQ(select(CandidateMode::kUse, blocks, 8), (Ints{2, 3, 7}));
  EXPECT_EQ(select(CandidateMode::kUse, blocks, 7), (Ints{2, 3, 6}));
}

TEST(ReferenceOps, SumsExpertsInSlotOrderAfterTheSharedOne) {
  ReferenceOps ops;
  // Width-1 experts: gate g, up u, down d.
  const Floats g = {1};
  const Floats u = {2};
  const Floats d = {3};
  const Floats big = {100};
  const ExpertWeights plain{f32_weight(g, 1), f32_weight(u, 1), f32_weight(d, 1)};
  const ExpertWeights clamped{f32_weight(big, 1), f32_weight(big, 1), f32_weight(d, 1)};
  const std::vector<ExpertWeights> routed = {plain, clamped};
  Floats x = {1};
  Floats y(1);
  const Ints experts = {1, 0};
  const Floats weights = {0.5F, 2};
  ops.moe(matrix(x, 1), experts, weights, 2, {routed, nullptr}, plain, 10, matrix(y, 1));
  const double silu = 1 / (1 + std::exp(-1.0));
  const double silu_10 = 10 / (1 + std::exp(-10.0));
  EXPECT_NEAR(y[0], 3 * 2 * silu + 3 * 10 * silu_10 * 0.5 + 3 * 2 * silu * 2, 1e-4);
}

TEST(ReferenceOps, AsksForTheExpertsOfAStepOnceAndInOrder) {
  class Recorder : public ExpertResidency {
   public:
    void require(std::span<const std::int32_t> experts) override {
      seen.assign(experts.begin(), experts.end());
    }
    Ints seen;
  } recorder;
  ReferenceOps ops;
  const Floats one = {1};
  const ExpertWeights expert{f32_weight(one, 1), f32_weight(one, 1), f32_weight(one, 1)};
  const std::vector<ExpertWeights> routed(4, expert);
  Floats x = {1, 1};
  Floats y(2);
  const Ints experts = {3, 1, 1, 0};
  const Floats weights = {1, 1, 1, 1};
  ops.moe(matrix(x, 2), experts, weights, 2, {routed, &recorder}, expert, 0, matrix(y, 2));
  EXPECT_EQ(recorder.seen, (Ints{0, 1, 3}));
}

TEST(ReferenceOps, GatesEngramAsInTheWorkedExample) {
  ReferenceOps ops;
  Floats x = {1, 2, -1, 0.5F, 1, 2, -1, 0.5F};
  const Floats before = x;
  Floats kv = {0.5F, 1, 1, -2, 1, 10, 100, 1000, 0.5F, 1, 1, -2, 1, 10, 100, 1000};
  const Floats ones(4, 1.0F);
  Floats gates(2);
  const std::vector<std::uint8_t> active = {1, 0};
  ops.engram_gate(matrix(x, 2), matrix(kv, 2), ones, ones, active, 1, 1e-20F, matrix(gates, 2));
  EXPECT_NEAR(gates[0], 0.598688F, 1e-6);
  for (std::size_t d = 0; d < 4; ++d) {
    EXPECT_NEAR(x[d], before[d] + 0.598688 * kv[4 + d], 1e-3);
    EXPECT_EQ(x[4 + d], before[4 + d]) << "an inactive row must stay";
  }
  EXPECT_NEAR(engram_gate_value(0.0F), 1 / (1 + std::exp(-0.001)), 1e-7);
}

TEST(ReferenceOps, EmbedsUnknownIdsAsZerosInEveryStream) {
  ReferenceOps ops;
  const Floats table = {1, 2, 3, 4};
  Floats x(3 * 4, 9.0F);
  ops.embed(std::vector<TokenId>{1, -1, 2}, f32_weight(table, 2), 2, matrix(x, 3));
  EXPECT_EQ(x, (Floats{3, 4, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(ReferenceOps, MultipliesBlockDiagonally) {
  ReferenceOps ops;
  const Floats weight = {1, 2, 3, 4};  // two groups of one output and two inputs
  Floats x = {1, 10, 100, 1000};
  Floats y(2);
  ops.grouped_linear(matrix(x, 1), f32_weight(weight, 2), 2, matrix(y, 1));
  EXPECT_EQ(y, (Floats{21, 4300}));
}

}  // namespace
}  // namespace deepinfer
