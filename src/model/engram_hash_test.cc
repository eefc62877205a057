#include "model/engram_hash.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"

namespace deepinfer {
namespace {

ModelConfig small_config() {
  ModelConfig config;
  config.vocab_size = 10;
  config.engram_layer_ids = {1};
  config.engram_vocab_size = 11;
  config.engram_max_ngram_size = 4;
  config.engram_n_heads = 2;
  config.engram_head_dim = 32;
  config.engram_pad_token_id = 2;
  config.engram_compressed_vocab_size = 10;
  return config;
}

std::vector<std::int32_t> identity_map() {
  std::vector<std::int32_t> map(10);
  std::iota(map.begin(), map.end(), 0);
  return map;
}

std::vector<std::int64_t> rows_of(const EngramHash& hash, const std::vector<TokenId>& ngrams) {
  std::vector<std::int64_t> rows(ngrams.size() / 4 * static_cast<std::size_t>(hash.columns()));
  hash.rows(0, ngrams, rows);
  return rows;
}

TEST(EngramHash, TreatsEverythingBehindTheSequenceStartAsPadding) {
  const EngramHash hash(small_config(), identity_map());
  EXPECT_EQ(rows_of(hash, {7, 3, -1, -1}), rows_of(hash, {7, 3, 2, 2}));
  // A barrier hides what lies behind it, whatever that is.
  EXPECT_EQ(rows_of(hash, {7, -1, 5, 6}), rows_of(hash, {7, 2, 2, 2}));
  EXPECT_EQ(rows_of(hash, {7, 10, 5, 6}), rows_of(hash, {7, 2, 2, 2}));
  EXPECT_NE(rows_of(hash, {7, 3, 5, 6}), rows_of(hash, {7, 3, 2, 2}));
}

TEST(EngramHash, StaysInsideEachColumnsBucket) {
  const ModelConfig config = small_config();
  const EngramHash hash(config, identity_map());
  const EngramLayerTables layer = engram_tables(config).layers.front();
  for (TokenId a = 0; a < 10; ++a) {
    for (TokenId b = 0; b < 10; ++b) {
      const std::vector<std::int64_t> rows = rows_of(hash, {a, b, a, b});
      for (std::size_t c = 0; c < rows.size(); ++c) {
        EXPECT_GE(rows[c], layer.offsets[c]);
        EXPECT_LT(rows[c], layer.offsets[c] + layer.primes[c]);
      }
    }
  }
}

TEST(EngramHash, RefusesAMapOfAnotherVocabulary) {
  ModelConfig config = small_config();
  config.engram_compressed_vocab_size = 9;
  EXPECT_THROW(EngramHash(config, identity_map()), Error);
  EXPECT_THROW(EngramHash(small_config(), std::vector<std::int32_t>(3)), Error);
}

}  // namespace
}  // namespace deepinfer
