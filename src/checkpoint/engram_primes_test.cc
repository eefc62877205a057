#include "checkpoint/engram_primes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "checkpoint/safetensors.h"

namespace deepinfer {
namespace {

using ::testing::ElementsAre;

std::filesystem::path golden(const char* name) {
  return std::filesystem::path(DEEPINFER_GOLDEN_DIR) / name;
}

ModelConfig real_config() {
  return load_config(std::filesystem::path(DEEPINFER_CHECKPOINT_TESTDATA_DIR) / "real_config.json");
}

/// Primes below 2^25 by sieve, independent of the code under test.
std::vector<bool> sieve(std::int64_t limit) {
  std::vector<bool> composite(static_cast<std::size_t>(limit), false);
  for (std::int64_t i = 2; i * i < limit; ++i) {
    if (composite[static_cast<std::size_t>(i)]) continue;
    for (std::int64_t j = i * i; j < limit; j += i) composite[static_cast<std::size_t>(j)] = true;
  }
  return composite;
}

/// The search as model.md 9.2 words it.
std::vector<std::vector<std::int64_t>> primes_by_the_letter(const ModelConfig& config) {
  const auto composite = sieve(config.engram_vocab_size + 100000);
  std::set<std::int64_t> seen;
  std::vector<std::vector<std::int64_t>> result;
  for (std::size_t layer = 0; layer < config.engram_layer_ids.size(); ++layer) {
    auto& columns = result.emplace_back();
    for (int size = 2; size <= config.engram_max_ngram_size; ++size) {
      std::int64_t start = config.engram_vocab_size - 1;
      for (int head = 0; head < config.engram_n_heads; ++head) {
        std::int64_t next = start + 1;
        while (next < 2 || composite[static_cast<std::size_t>(next)] || seen.contains(next)) ++next;
        seen.insert(next);
        columns.push_back(next);
        start = next;
      }
    }
  }
  return result;
}

TEST(EngramPrimes, RealModelHasThePublishedPrimesAndRows) {
  const auto tables = engram_tables(real_config());
  ASSERT_EQ(tables.layers.size(), 2U);
  EXPECT_THAT(
      tables.layers[0].primes,
      ElementsAre(16000057, 16000079, 16000081, 16000097, 16000121, 16000129, 16000133, 16000183,
                  16000189, 16000207, 16000211, 16000253, 16000277, 16000289, 16000307, 16000321,
                  16000339, 16000381, 16000393, 16000399, 16000403, 16000409, 16000447, 16000463));
  EXPECT_THAT(
      tables.layers[1].primes,
      ElementsAre(16000477, 16000487, 16000499, 16000507, 16000511, 16000573, 16000609, 16000627,
                  16000667, 16000669, 16000693, 16000697, 16000711, 16000729, 16000759, 16000769,
                  16000781, 16000799, 16000813, 16000819, 16000841, 16000877, 16000879, 16000889));
  EXPECT_EQ(tables.layers[0].rows, 384006168);
  EXPECT_EQ(tables.layers[1].rows, 384016682);
  EXPECT_EQ(tables.layers[1].layer, 14);
}

TEST(EngramPrimes, WalkingAlongThePrimesEqualsTheSearchByTheLetter) {
  ModelConfig config;
  config.engram_max_ngram_size = 5;
  config.engram_n_heads = 7;
  for (const std::int64_t start : {1, 2, 3, 4, 24, 211, 499, 65536, 16000000}) {
    config.engram_vocab_size = start;
    config.engram_layer_ids = {1, 4, 9};
    EXPECT_EQ(engram_primes(config), primes_by_the_letter(config)) << start;
  }
}

TEST(EngramMultipliers, RealModelHasThePublishedMultipliers) {
  const auto tables = engram_tables(real_config());
  EXPECT_THAT(tables.layers[0].multipliers,
              ElementsAre(76632096046245, 4839876093313, 35959672319349, 73987337458391));
  EXPECT_THAT(tables.layers[1].multipliers,
              ElementsAre(67716810739261, 51510806800915, 30921347202721, 82619226485591));
}

TEST(EngramMultipliers, AreOddAndTheirProductsFitInt64) {
  for (const int vocabulary : {1, 2, 426, 99092, 1 << 24}) {
    for (const int layer : {0, 1, 14, 1023}) {
      for (const std::int64_t multiplier : engram_multipliers(layer, vocabulary, 16)) {
        EXPECT_EQ(multiplier % 2, 1);
        std::int64_t product = 0;
        EXPECT_FALSE(__builtin_mul_overflow(multiplier, std::int64_t{vocabulary} - 1, &product));
      }
    }
  }
}

TEST(EngramTables, GoldenCheckpointHasTheGoldenTables) {
  const auto tables = engram_tables(load_config(golden("tiny-random") / "config.json"));
  const SafetensorsFile file(golden("tiny-random-expected") / "engram-hash.safetensors");
  const auto values = [&file](const char* name) {
    const TensorView view = file.tensor(name);
    EXPECT_EQ(view.dtype, DType::kI64);
    std::vector<std::int64_t> result(static_cast<std::size_t>(view.shape.elements()));
    std::memcpy(result.data(), view.data, view.bytes());
    return result;
  };
  std::vector<std::int64_t> primes;
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> multipliers;
  for (const auto& layer : tables.layers) {
    primes.insert(primes.end(), layer.primes.begin(), layer.primes.end());
    offsets.insert(offsets.end(), layer.offsets.begin(), layer.offsets.end());
    multipliers.insert(multipliers.end(), layer.multipliers.begin(), layer.multipliers.end());
  }
  EXPECT_EQ(primes, values("primes"));
  EXPECT_EQ(offsets, values("offsets"));
  EXPECT_EQ(multipliers, values("multipliers"));
}

TEST(EngramTables, AreEmptyWithoutEngramLayers) {
  EXPECT_TRUE(engram_tables(ModelConfig{}).layers.empty());
}

}  // namespace
}  // namespace deepinfer
