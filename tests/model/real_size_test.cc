// One layer of each kind at the released model's dimensions (hidden 5120, 64 heads of 512, 384
// experts) with random weights: the CPU back end against the reference. Nothing may be sized for a
// small model. Experts are generated in their stored form (6.8 GB) and decoded where used; Engram
// rows (101 GB a table) come from a procedure.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "cache/store/cache_store.h"
#include "checkpoint/config.h"
#include "checkpoint/engram_primes.h"
#include "model/model.h"
#include "ops/ops.h"

namespace deepinfer {
namespace {

/// A small counter-based generator: value i of stream `seed`.
std::uint64_t mix(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15ULL + seed;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

float uniform(std::uint64_t seed, std::uint64_t i) {
  return static_cast<float>(mix(seed, i) >> 40) * 0x1p-23F - 1.0F;
}

/// Anonymous memory that is given back when the object dies.
class Arena {
 public:
  explicit Arena(std::size_t bytes) : bytes_(bytes) {
    void* address =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<std::uint8_t*>(address);
  }
  ~Arena() { munmap(data_, bytes_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  std::uint8_t* data() { return data_; }

 private:
  std::uint8_t* data_;
  std::size_t bytes_;
};

/// Makes stored weights of random codes whose decoded values have a spread of about 1/sqrt(cols).
class WeightFactory {
 public:
  explicit WeightFactory(ThreadPool& pool) : pool_(pool) {}

  LinearWeight fp8(std::int64_t rows, std::int64_t cols) {
    std::uint8_t* const codes = fill(rows * cols, [](std::uint64_t word) {
      // Exponent field 4..11 of E4M3: values of 2^-3 .. 2^5, never NaN.
      return (word & 0xbfbfbfbfbfbfbfbfULL) ^ 0x2020202020202020ULL;
    });
    // Codes spread about 6; 2^-2.6 brings that to 1.
    return {WeightFormat::kFp8Block32, reinterpret_cast<std::byte*>(codes),
            scales((rows + 31) / 32 * ((cols + 31) / 32), cols, -2.6), rows, cols};
  }
  LinearWeight fp4(std::int64_t rows, std::int64_t cols) {
    std::uint8_t* const codes = fill(rows * cols / 2, [](std::uint64_t word) { return word; });
    return {WeightFormat::kFp4Group32, reinterpret_cast<std::byte*>(codes),
            scales(rows * (cols / 32), cols, -1.5), rows, cols};
  }
  LinearWeight bf16(std::int64_t rows, std::int64_t cols) {
    auto* const values = reinterpret_cast<std::uint16_t*>(allocate(rows * cols * 2));
    const float scale = 1.7F / std::sqrt(static_cast<float>(cols));
    const std::uint64_t seed = ++seed_;
    pool_.parallel_for(rows * cols, 4096, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        values[i] = float_to_bf16(uniform(seed, static_cast<std::uint64_t>(i)) * scale);
      }
    });
    return {WeightFormat::kBF16, reinterpret_cast<std::byte*>(values), nullptr, rows, cols};
  }
  std::vector<float> vector(std::int64_t count, float middle, float spread) {
    std::vector<float> values(static_cast<std::size_t>(count));
    const std::uint64_t seed = ++seed_;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = middle + spread * uniform(seed, i);
    return values;
  }

 private:
  std::uint8_t* allocate(std::int64_t bytes) {
    arenas_.push_back(std::make_unique<Arena>(static_cast<std::size_t>(bytes + 8)));
    return arenas_.back()->data();
  }
  template <typename Map>
  std::uint8_t* fill(std::int64_t bytes, Map map) {
    std::uint8_t* const data = allocate(bytes);
    const std::uint64_t seed = ++seed_;
    pool_.parallel_for((bytes + 7) / 8, 4096, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::uint64_t word = map(mix(seed, static_cast<std::uint64_t>(i)));
        std::memcpy(data + i * 8, &word, 8);
      }
    });
    return data;
  }
  /// UE8M0 scales about 2^log2_spread / sqrt(cols), neighbours different.
  const std::uint8_t* scales(std::int64_t count, std::int64_t cols, double log2_spread) {
    const auto middle =
        static_cast<int>(127 + log2_spread - 0.5 * std::log2(static_cast<double>(cols)));
    const auto low = static_cast<std::uint64_t>(middle) * 0x0101010101010101ULL;
    return fill(count, [low](std::uint64_t word) { return low + (word & 0x0101010101010101ULL); });
  }

  ThreadPool& pool_;
  std::uint64_t seed_ = 0;
  std::vector<std::unique_ptr<Arena>> arenas_;
};

/// Rows of a table that is never stored: element c of row r is a hash of (r, c).
class ProceduralTable final : public EngramRowReader {
 public:
  ProceduralTable(std::int64_t rows, std::int64_t dim) : rows_(rows), dim_(dim) {}
  std::int64_t rows() const override { return rows_; }
  std::int64_t dim() const override { return dim_; }
  void read(std::span<const std::int64_t> rows, float* out) const override {
    for (const std::int64_t row : rows) {
      ASSERT_LT(row, rows_);
      for (std::int64_t c = 0; c < dim_; ++c) {
        *out++ = 0.1F * uniform(static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(c));
      }
    }
  }

 private:
  std::int64_t rows_;
  std::int64_t dim_;
};

/// The released configuration cut to one layer of each kind: window, window + Engram, Full C2,
/// Reuse, Full C1 with candidates, Reindex.
ModelConfig one_layer_of_each_kind() {
  ModelConfig config = load_config(DEEPINFER_REAL_CONFIG);
  config.num_hidden_layers = 6;
  config.num_nextn_predict_layers = 0;
  config.compress_ratios = {0, 0, 2, 2, 1, 1};
  config.kv_source_layer_ids = {2, 4};
  config.index_source_layer_ids = {2, 4, 5};
  config.index_k_source_layer_ids = {2, 4};
  config.candidate_source_layer_id = 4;
  config.engram_layer_ids = {1};
  config.vocab_size = 4096;  // embedding and head are the small test models' business
  config.engram_compressed_vocab_size = 4096;
  return config;
}

class RealSize : public ::testing::Test {
 protected:
  RealSize() : config_(one_layer_of_each_kind()), pool_(2), factory_(pool_) {
    const std::int64_t hidden = config_.hidden_size;
    for (int expert = 0; expert < config_.n_routed_experts; ++expert) {
      experts_.push_back({factory_.fp4(config_.moe_intermediate_size, hidden),
                          factory_.fp4(config_.moe_intermediate_size, hidden),
                          factory_.fp4(hidden, config_.moe_intermediate_size)});
    }
    weights_.embedding = factory_.bf16(config_.vocab_size, hidden);
    weights_.head = factory_.bf16(config_.vocab_size, hidden);
    weights_.norm = factory_.vector(hidden, 1, 0.1F);
    for (int layer = 0; layer < config_.num_hidden_layers; ++layer) add_layer(layer);
    for (int id = 0; id < config_.vocab_size; ++id) token_map_.push_back(id);
  }

  HyperConnectionSite site() {
    const std::int64_t streams = config_.hc_mult;
    HyperConnectionSite site;
    site.fn = factory_.vector(config_.hc_mix_count() * streams * config_.hidden_size, 0, 0.01F);
    site.base = factory_.vector(config_.hc_mix_count(), 0, 1);
    site.scale = {0.5F, 0.5F, 0.5F};
    return site;
  }

  void add_layer(int layer) {
    const std::int64_t hidden = config_.hidden_size;
    const std::int64_t head_cols =
        static_cast<std::int64_t>(config_.num_attention_heads) * config_.head_dim;
    LayerWeights weights;
    weights.attention_hc = site();
    weights.ffn_hc = site();
    weights.attention_norm = factory_.vector(hidden, 1, 0.1F);
    weights.ffn_norm = factory_.vector(hidden, 1, 0.1F);
    if (layer == 0) {
      // The large attention matrices are the same in all layers: what differs between kinds is
      // what surrounds them.
      shared_attention_ = {
          {},
          factory_.fp8(config_.q_lora_rank, hidden),
          {},
          factory_.fp8(head_cols, config_.q_lora_rank),
          factory_.fp8(config_.head_dim, hidden),
          {},
          factory_.fp8(config_.o_groups * config_.o_lora_rank, head_cols / config_.o_groups),
          factory_.fp8(hidden, config_.o_groups * config_.o_lora_rank)};
    }
    weights.attention = shared_attention_;
    weights.attention.sink = factory_.vector(config_.num_attention_heads, 0, 1);
    weights.attention.q_norm = factory_.vector(config_.q_lora_rank, 1, 0.1F);
    weights.attention.kv_norm = factory_.vector(config_.head_dim, 1, 0.1F);
    if (config_.is_kv_source(layer)) {
      weights.compressor = std::make_unique<CompressorWeights>();
      weights.compressor->value = factory_.bf16(config_.head_dim, hidden);
      if (config_.ratio(layer) == 2) {
        weights.compressor->gate = factory_.bf16(config_.head_dim, hidden);
      }
      weights.compressor->norm = factory_.vector(config_.head_dim, 1, 0.1F);
      weights.index_key = std::make_unique<IndexKeyWeights>(
          IndexKeyWeights{factory_.bf16(config_.index_head_dim, config_.head_dim),
                          factory_.vector(config_.index_head_dim, 1, 0.1F)});
    }
    if (config_.is_index_source(layer)) {
      weights.indexer = std::make_unique<IndexerWeights>(IndexerWeights{
          factory_.fp8(static_cast<std::int64_t>(config_.index_n_heads) * config_.index_head_dim,
                       config_.q_lora_rank),
          factory_.bf16(config_.index_n_heads, hidden)});
    }
    weights.moe.gate = factory_.bf16(config_.n_routed_experts, hidden);
    weights.moe.bias = factory_.vector(config_.n_routed_experts, 0, 0.1F);
    weights.moe.bias_vl = weights.moe.bias;
    weights.moe.shared = {factory_.fp8(config_.moe_intermediate_size, hidden),
                          factory_.fp8(config_.moe_intermediate_size, hidden),
                          factory_.fp8(hidden, config_.moe_intermediate_size)};
    weights.moe.experts = experts_;
    if (config_.has_engram(layer)) {
      const std::int64_t streams = config_.hc_mult;
      weights.engram = std::make_unique<EngramWeights>();
      weights.engram->table = std::make_shared<ProceduralTable>(
          engram_tables(config_).layers.front().rows, config_.engram_head_dim);
      weights.engram->kv =
          factory_.fp8((streams + 1) * hidden, static_cast<std::int64_t>(config_.engram_columns()) *
                                                   config_.engram_head_dim);
      weights.engram->q_weight = factory_.vector(streams * hidden, 1, 0.1F);
      weights.engram->k_weight = factory_.vector(streams * hidden, 1, 0.1F);
    }
    weights_.layers.push_back(std::move(weights));
  }

  /// Fills a pool of cache records as if tokens had been there.
  static void fill_records(CacheRows records, std::uint64_t seed) {
    std::vector<float> values(static_cast<std::size_t>(records.dim));
    for (std::int64_t row = 0; row < records.rows; ++row) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = 1.7F * uniform(seed + static_cast<std::uint64_t>(row), i);
      }
      encode_record(records.format, values, records.row(row));
    }
  }

  ModelConfig config_;
  ThreadPool pool_;
  WeightFactory factory_;
  std::vector<ExpertWeights> experts_;
  AttentionWeights shared_attention_;
  ModelWeights weights_;
  std::vector<std::int32_t> token_map_;
};

/// Everything a layer shows.
class Recorder : public ForwardObserver {
 public:
  void on_values(std::string_view name, int layer, ConstMatrix values) override {
    auto& all = floats[{layer, std::string(name)}];
    for (std::int64_t row = 0; row < values.rows; ++row) {
      all.insert(all.end(), values.row(row), values.row(row) + values.cols);
    }
  }
  void on_indices(std::string_view name, int layer, std::span<const std::int32_t> indices,
                  std::int64_t) override {
    ints[{layer, std::string(name)}].assign(indices.begin(), indices.end());
  }
  using Key = std::pair<int, std::string>;
  std::map<Key, std::vector<float>> floats;
  std::map<Key, std::vector<std::int32_t>> ints;
};

TEST_F(RealSize, OneLayerOfEachKindEqualsTheReference) {
  // A decode row where candidates bite (20,001 entries, 2,048 blocks of 8 kept), a chunk across an
  // odd boundary where only top-k bites, and the start of a prompt.
  const std::vector<SequenceRows> sequences = {{0, 1, 20000, 1}, {1, 2, 1399, 2}, {3, 2, 0, 3}};
  const std::vector<TokenId> ids = {17, 901, 4000, 0, 3};
  std::vector<TokenId> ngrams;
  for (const TokenId id : ids) ngrams.insert(ngrams.end(), {id, (id + 5) % 4096, 77, 1234});
  const std::vector<std::int32_t> wanted = {0, 2, 4};

  CacheOptions cache_options;
  const CacheLayout layout(config_, cache_options);
  const std::int64_t max_blocks = layout.blocks_for(20001);
  std::vector<std::int32_t> table(static_cast<std::size_t>(3 * max_blocks), 0);
  std::int32_t next_block = 1;
  for (std::size_t s = 0; s < 3; ++s) {
    const std::int32_t blocks = layout.blocks_for(sequences[s].start_position + sequences[s].rows);
    for (std::int32_t b = 0; b < blocks; ++b) {
      table[s * static_cast<std::size_t>(max_blocks) + static_cast<std::size_t>(b)] = next_block++;
    }
  }
  const StepBatch batch{ids, ngrams, sequences, table, max_blocks, wanted};

  const auto cpu = make_cpu_ops(pool_);
  const auto reference = make_reference_ops();
  Recorder seen[2];
  for (int run = 0; run < 2; ++run) {
    CacheStore caches(config_, layout, next_block, 3);
    for (int layer = 0; layer < config_.num_hidden_layers; ++layer) {
      fill_records(caches.ring(layer), 1000 + static_cast<std::uint64_t>(layer));
    }
    for (const int layer : config_.kv_source_layer_ids) {
      fill_records(caches.compressed(layer), 2000 + static_cast<std::uint64_t>(layer));
      fill_records(caches.index_keys(layer), 3000 + static_cast<std::uint64_t>(layer));
    }
    Model model(config_, weights_, layout, run == 0 ? *reference : *cpu, token_map_,
                {NumericsProfile::kExactCache, 8});
    std::vector<float> logits(3 * static_cast<std::size_t>(config_.vocab_size));
    model.forward(batch, caches, {logits.data(), 3, config_.vocab_size}, &seen[run]);
  }
  EXPECT_GT(seen[0].floats.size(), 60U);
  for (const auto& [key, want] : seen[0].floats) {
    const std::string what = "layer " + std::to_string(key.first) + " " + key.second;
    const std::vector<float>& got = seen[1].floats.at(key);
    ASSERT_EQ(got.size(), want.size()) << what;
    double difference = 0;
    double norm = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_TRUE(std::isfinite(want[i])) << what;
      difference += std::pow(static_cast<double>(got[i]) - want[i], 2);
      norm += std::pow(static_cast<double>(want[i]), 2);
    }
    ASSERT_GT(norm, 0) << what;
    ASSERT_LE(std::sqrt(difference / norm), 1e-5) << what;
    // The contract promises more than the tolerance: the same bits.
    ASSERT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0) << what;
  }
  EXPECT_EQ(seen[0].ints, seen[1].ints) << "routing, top-k or candidate decisions differ";

  struct rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  EXPECT_LT(usage.ru_maxrss, 16L * 1024 * 1024) << "KiB of memory";
}

}  // namespace
}  // namespace deepinfer
