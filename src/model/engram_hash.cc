#include "model/engram_hash.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace deepinfer {

EngramHash::EngramHash(const ModelConfig& config, std::vector<std::int32_t> token_map)
    : ngram_size_(config.engram_max_ngram_size),
      heads_(config.engram_n_heads),
      columns_(config.engram_columns()),
      token_map_(std::move(token_map)),
      tables_(engram_tables(config)) {
  if (static_cast<int>(token_map_.size()) < config.vocab_size) {
    fail_checkpoint("tokenizer: " + std::to_string(token_map_.size()) +
                    " entries for the Engram hash; config.json has vocab_size " +
                    std::to_string(config.vocab_size));
  }
  token_map_.resize(static_cast<std::size_t>(config.vocab_size));
  const std::int32_t distinct = *std::max_element(token_map_.begin(), token_map_.end()) + 1;
  if (distinct != config.engram_compressed_vocab_size) {
    fail_checkpoint("tokenizer: the Engram vocabulary has " + std::to_string(distinct) +
                    " keys; config.json has engram_compressed_vocab_size " +
                    std::to_string(config.engram_compressed_vocab_size));
  }
  pad_ = token_map_[static_cast<std::size_t>(config.engram_pad_token_id)];
}

void EngramHash::rows(int index, std::span<const TokenId> ngrams,
                      std::span<std::int64_t> rows) const {
  const EngramLayerTables& layer = tables_.layers[static_cast<std::size_t>(index)];
  const auto n = static_cast<std::size_t>(ngram_size_);
  const auto columns = static_cast<std::size_t>(columns_);
  const std::size_t tokens = ngrams.size() / n;
  for (std::size_t t = 0; t < tokens; ++t) {
    const std::span<const TokenId> gram = ngrams.subspan(t * n, n);
    std::int64_t hash = 0;
    bool ended = false;
    std::size_t column = 0;
    for (std::size_t i = 0; i < n; ++i) {
      ended = ended || gram[i] < 0 || gram[i] >= static_cast<TokenId>(token_map_.size());
      const std::int64_t id = ended ? pad_ : token_map_[static_cast<std::size_t>(gram[i])];
      hash ^= id * layer.multipliers[i];
      if (i == 0) continue;
      for (int head = 0; head < heads_; ++head, ++column) {
        rows[t * columns + column] = hash % layer.primes[column] + layer.offsets[column];
      }
    }
  }
}

}  // namespace deepinfer
