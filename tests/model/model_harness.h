#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cache/plan/block_pool.h"
#include "cache/store/cache_store.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "text/engram_vocabulary.h"
#include "text/tokenizer.h"

namespace deepinfer::testing {

/// A checkpoint with its weights and Engram vocabulary, opened once a test program.
struct LoadedModel {
  explicit LoadedModel(const std::filesystem::path& directory)
      : checkpoint(Checkpoint::open(directory)),
        config(checkpoint.config()),
        weights(load_weights(checkpoint)),
        token_map(engram_token_map(Tokenizer::load(checkpoint.tokenizer_directory(),
                                                   checkpoint.config().tokenizer_compatibility))) {}

  Checkpoint checkpoint;
  ModelConfig config;  ///< a copy, which a test may change together with the weights
  ModelWeights weights;
  std::vector<std::int32_t> token_map;
};

/// Feeds token sequences to a Model in steps of any shape, keeping the caches: what the engine
/// does, without scheduling or sampling.
class ModelHarness {
 public:
  struct Options {
    NumericsProfile numerics = NumericsProfile::kExact;
    int tokens_per_block = 16;
    std::int32_t slots = 4;
    std::int64_t max_length = 1024;
    std::int64_t max_tokens = 1024;
  };

  ModelHarness(const LoadedModel& loaded, Ops& ops, const Options& options)
      : config_(loaded.config),
        layout_(config_, {options.numerics, options.tokens_per_block, 0}),
        max_blocks_(layout_.blocks_for(options.max_length)),
        blocks_(static_cast<std::int32_t>(max_blocks_) * options.slots),
        slots_(options.slots),
        caches_(config_, layout_, blocks_.capacity(), slots_.capacity()),
        model_(config_, loaded.weights, layout_, ops, loaded.token_map,
               {options.numerics, options.max_tokens}) {}

  /// A new empty sequence.
  std::size_t add_sequence() {
    sequences_.push_back({slots_.allocate(), {}, {}});
    return sequences_.size() - 1;
  }

  struct Chunk {
    std::size_t sequence;
    std::vector<TokenId> tokens;
  };

  /// Runs one step over all chunks; returns the logits of every row, in row order.
  std::vector<std::vector<float>> step(const std::vector<Chunk>& chunks,
                                       ForwardObserver* observer = nullptr) {
    std::vector<TokenId> ids;
    std::vector<TokenId> ngrams;
    std::vector<SequenceRows> rows;
    std::vector<std::int32_t> table;
    std::vector<std::int32_t> wanted;
    for (const Chunk& chunk : chunks) {
      Sequence& sequence = sequences_[chunk.sequence];
      const auto start = static_cast<std::int32_t>(sequence.tokens.size());
      rows.push_back({static_cast<std::int32_t>(ids.size()),
                      static_cast<std::int32_t>(chunk.tokens.size()), start, sequence.slot});
      for (const TokenId id : chunk.tokens) {
        wanted.push_back(static_cast<std::int32_t>(ids.size()));
        ids.push_back(id);
        sequence.tokens.push_back(id);
        for (int back = 0; back < config_.engram_max_ngram_size; ++back) {
          const auto at = static_cast<std::int64_t>(sequence.tokens.size()) - 1 - back;
          ngrams.push_back(at < 0 ? -1 : sequence.tokens[static_cast<std::size_t>(at)]);
        }
      }
      while (static_cast<std::int32_t>(sequence.blocks.size()) <
             layout_.blocks_for(static_cast<std::int64_t>(sequence.tokens.size()))) {
        sequence.blocks.push_back(blocks_.allocate());
      }
      table.insert(table.end(), sequence.blocks.begin(), sequence.blocks.end());
      table.resize(rows.size() * static_cast<std::size_t>(max_blocks_));
    }
    const auto vocabulary = static_cast<std::size_t>(config_.vocab_size);
    std::vector<float> logits(ids.size() * vocabulary);
    const StepBatch batch{ids, ngrams, rows, table, max_blocks_, wanted};
    model_.forward(batch, caches_,
                   {logits.data(), static_cast<std::int64_t>(ids.size()), config_.vocab_size},
                   observer);
    std::vector<std::vector<float>> result;
    for (std::size_t row = 0; row < ids.size(); ++row) {
      result.emplace_back(logits.begin() + static_cast<std::ptrdiff_t>(row * vocabulary),
                          logits.begin() + static_cast<std::ptrdiff_t>((row + 1) * vocabulary));
    }
    return result;
  }

  /// Feeds `tokens` to a new sequence in chunks of the given sizes (the last one repeats).
  std::vector<std::vector<float>> run(std::span<const TokenId> tokens,
                                      const std::vector<std::size_t>& sizes,
                                      ForwardObserver* observer = nullptr) {
    const std::size_t sequence = add_sequence();
    std::vector<std::vector<float>> logits;
    std::size_t at = 0;
    for (std::size_t i = 0; at < tokens.size(); ++i) {
      const std::size_t count = std::min(sizes[std::min(i, sizes.size() - 1)], tokens.size() - at);
      const auto part = tokens.subspan(at, count);
      for (auto& row : step({{sequence, {part.begin(), part.end()}}}, observer)) {
        logits.push_back(std::move(row));
      }
      at += count;
    }
    return logits;
  }

 private:
  struct Sequence {
    std::int32_t slot;
    std::vector<TokenId> tokens;
    std::vector<std::int32_t> blocks;
  };

  const ModelConfig& config_;
  CacheLayout layout_;
  std::int64_t max_blocks_;
  BlockPool blocks_;
  BlockPool slots_;
  CacheStore caches_;
  Model model_;
  std::vector<Sequence> sequences_;
};

}  // namespace deepinfer::testing
