// The contract of docs/numerics.md for the whole model: a token's bits depend on its sequence and
// on nothing else.

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "model/model_harness.h"
#include "ops/ops.h"

namespace deepinfer {
namespace {

using testing::LoadedModel;
using testing::ModelHarness;
using Rows = std::vector<std::vector<float>>;

const LoadedModel& tiny_random() {
  static const LoadedModel loaded(std::string(DEEPINFER_GOLDEN_DIR) + "/tiny-random");
  return loaded;
}

std::vector<TokenId> random_tokens(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) {
    token = static_cast<TokenId>(
        random() % static_cast<unsigned>(tiny_random().checkpoint.config().vocab_size));
  }
  return tokens;
}

void expect_same_bits(const Rows& got, const Rows& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t row = 0; row < got.size(); ++row) {
    ASSERT_EQ(std::memcmp(got[row].data(), want[row].data(), got[row].size() * sizeof(float)), 0)
        << what << ": row " << row << " differs";
  }
}

struct Setting {
  std::string backend;
  NumericsProfile numerics;
};

class Invariance : public ::testing::TestWithParam<Setting> {
 protected:
  ModelHarness harness(Ops& ops) const {
    ModelHarness::Options options;
    options.numerics = GetParam().numerics;
    options.slots = 6;
    return {tiny_random(), ops, options};
  }
  std::unique_ptr<Ops> make(ThreadPool& pool) const {
    return GetParam().backend == "cpu" ? make_cpu_ops(pool) : make_reference_ops();
  }
  /// The long prompt: beyond window 32, top-k 32, 8 x 8 candidates, an odd length.
  std::vector<TokenId> prompt_ = random_tokens(151, 5);
};

TEST_P(Invariance, KeepsTheBitsForAnyChunking) {
  ThreadPool pool(2);
  const auto ops = make(pool);
  const Rows whole = harness(*ops).run(prompt_, {1000});
  // Odd and even cuts, chunks longer and shorter than the window, then single-token decode.
  std::vector<std::size_t> mixed = {7, 13, 1, 43, 13};
  mixed.resize(5 + 74, 1);
  expect_same_bits(harness(*ops).run(prompt_, mixed), whole, "7, 13, 1, 43, 13, then decode");
  expect_same_bits(harness(*ops).run(prompt_, {1}), whole, "token by token");
  expect_same_bits(harness(*ops).run(prompt_, {64, 33}), whole, "64, 33, …");
  std::mt19937 random(11);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::size_t> sizes(151);
    for (std::size_t& size : sizes) size = 1 + random() % 60;
    expect_same_bits(harness(*ops).run(prompt_, sizes), whole, "random chunks");
  }
}

TEST_P(Invariance, KeepsTheBitsForAnyBatch) {
  ThreadPool pool(2);
  const auto ops = make(pool);
  const Rows alone = harness(*ops).run(prompt_, {1000});
  ModelHarness model = harness(*ops);
  std::mt19937 random(3);
  const std::size_t sequence = model.add_sequence();
  std::vector<std::size_t> others = {model.add_sequence(), model.add_sequence(),
                                     model.add_sequence()};
  Rows got;
  std::size_t at = 0;
  while (at < prompt_.size()) {
    // The sequence of interest stands anywhere among chunks of random others.
    std::vector<ModelHarness::Chunk> chunks;
    for (const std::size_t other : others) {
      if (random() % 3 != 0) chunks.push_back({other, random_tokens(1 + random() % 9, random())});
    }
    const std::size_t count = std::min<std::size_t>(1 + random() % 17, prompt_.size() - at);
    const std::size_t place = random() % (chunks.size() + 1);
    chunks.insert(chunks.begin() + static_cast<std::ptrdiff_t>(place),
                  {sequence,
                   {prompt_.begin() + static_cast<std::ptrdiff_t>(at),
                    prompt_.begin() + static_cast<std::ptrdiff_t>(at + count)}});
    const Rows rows = model.step(chunks);
    std::size_t first = 0;
    for (std::size_t i = 0; i < place; ++i) first += chunks[i].tokens.size();
    for (std::size_t i = 0; i < count; ++i) got.push_back(rows[first + i]);
    at += count;
  }
  expect_same_bits(got, alone, "in a batch of random others");
}

INSTANTIATE_TEST_SUITE_P(Backends, Invariance,
                         ::testing::Values(Setting{"reference", NumericsProfile::kExact},
                                           Setting{"reference", NumericsProfile::kExactCache},
                                           Setting{"cpu", NumericsProfile::kExact},
                                           Setting{"cpu", NumericsProfile::kExactCache}),
                         [](const auto& info) {
                           return info.param.backend +
                                  (info.param.numerics == NumericsProfile::kExact ? "_exact"
                                                                                  : "_exact_cache");
                         });

TEST(CpuBackEnd, KeepsTheBitsForAnyThreadCount) {
  const std::vector<TokenId> prompt = random_tokens(151, 5);
  Rows want;
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    const auto ops = make_cpu_ops(pool);
    const Rows got = ModelHarness(tiny_random(), *ops, {}).run(prompt, {50});
    if (threads == 1) want = got;
    expect_same_bits(got, want, std::to_string(threads) + " threads");
  }
}

TEST(CpuBackEnd, AgreesWithTheReferenceBitForBit) {
  ThreadPool pool(2);
  const auto cpu = make_cpu_ops(pool);
  const auto reference = make_reference_ops();
  const std::vector<TokenId> prompt = random_tokens(151, 5);
  for (const NumericsProfile numerics : {NumericsProfile::kExact, NumericsProfile::kExactCache}) {
    ModelHarness::Options options;
    options.numerics = numerics;
    ModelHarness a(tiny_random(), *cpu, options);
    ModelHarness b(tiny_random(), *reference, options);
    expect_same_bits(a.run(prompt, {40}), b.run(prompt, {40}), "cpu against reference");
  }
}

TEST(IndexKeys, OfASourceWithoutACompressorComeFromItsSegmentsLatents) {
  // Layer 7 becomes an index-K source inside the KV segment of layer 5. With layer 5's own key
  // weights it must make the very keys that it read from there before.
  LoadedModel more(std::string(DEEPINFER_GOLDEN_DIR) + "/tiny-random");
  more.config.index_k_source_layer_ids = {2, 4, 5, 7};
  more.weights.layers[7].index_key =
      std::make_unique<IndexKeyWeights>(*more.weights.layers[5].index_key);
  const auto ops = make_reference_ops();
  const std::vector<TokenId> prompt = random_tokens(151, 5);
  const Rows want = ModelHarness(tiny_random(), *ops, {}).run(prompt, {40});
  expect_same_bits(ModelHarness(more, *ops, {}).run(prompt, {40}), want, "own keys at layer 7");
  // Other weights must make a difference, else the keys of layer 7 are not read at all.
  for (float& weight : more.weights.layers[7].index_key->norm) weight = -weight;
  const Rows other = ModelHarness(more, *ops, {}).run(prompt, {40});
  EXPECT_NE(other.back(), want.back());
}

}  // namespace
}  // namespace deepinfer
