#include "checkpoint/engram_primes.h"

#include <array>
#include <bit>
#include <limits>
#include <numeric>

namespace deepinfer {
namespace {

bool is_prime(std::int64_t value) {
  if (value < 4) return value >= 2;
  if (value % 2 == 0 || value % 3 == 0) return false;
  for (std::int64_t divisor = 5; divisor * divisor <= value; divisor += 6) {
    if (value % divisor == 0 || value % (divisor + 2) == 0) return false;
  }
  return true;
}

/// NumPy's SeedSequence with the default pool of four words, for a 64-bit seed: the four 64-bit
/// values that seed a PCG64.
std::array<std::uint64_t, 4> seed_sequence(std::uint64_t seed) {
  const std::array<std::uint32_t, 4> words{static_cast<std::uint32_t>(seed),
                                           static_cast<std::uint32_t>(seed >> 32), 0, 0};
  std::uint32_t hash_constant = 0x43b0d7e5U;
  const auto hash = [&hash_constant](std::uint32_t value) {
    value ^= hash_constant;
    hash_constant *= 0x931e8875U;
    value *= hash_constant;
    return value ^ (value >> 16);
  };
  const auto mix = [](std::uint32_t a, std::uint32_t b) {
    const std::uint32_t result = 0xca01f9ddU * a - 0x4973f715U * b;
    return result ^ (result >> 16);
  };
  std::array<std::uint32_t, 4> pool{};
  for (std::size_t i = 0; i < 4; ++i) pool[i] = hash(words[i]);
  for (std::size_t source = 0; source < 4; ++source) {
    for (std::size_t target = 0; target < 4; ++target) {
      if (source != target) pool[target] = mix(pool[target], hash(pool[source]));
    }
  }
  std::array<std::uint64_t, 4> output{};
  hash_constant = 0x8b51f9ddU;
  for (std::size_t k = 0; k < 8; ++k) {
    std::uint32_t value = pool[k % 4] ^ hash_constant;
    hash_constant *= 0x58f38dedU;
    value *= hash_constant;
    value ^= value >> 16;
    output[k / 2] |= static_cast<std::uint64_t>(value) << (32 * (k % 2));
  }
  return output;
}

/// PCG64 (XSL-RR) as NumPy seeds and steps it.
class Pcg64 {
 public:
  explicit Pcg64(std::uint64_t seed) {
    const auto words = seed_sequence(seed);
    const Word initial = (static_cast<Word>(words[0]) << 64) | words[1];
    const Word sequence = (static_cast<Word>(words[2]) << 64) | words[3];
    increment_ = (sequence << 1) | 1;
    step();
    state_ += initial;
    step();
  }

  std::uint64_t next() {
    step();
    const auto high = static_cast<std::uint64_t>(state_ >> 64);
    const auto low = static_cast<std::uint64_t>(state_);
    return std::rotr(high ^ low, static_cast<int>(state_ >> 122));
  }

  /// Uniform in [0, bound) by Lemire's method; NumPy takes this path for bounds above 2^32.
  std::uint64_t below(std::uint64_t bound) {
    Word product = static_cast<Word>(next()) * bound;
    if (static_cast<std::uint64_t>(product) < bound) {
      const std::uint64_t threshold = (0 - bound) % bound;
      while (static_cast<std::uint64_t>(product) < threshold) {
        product = static_cast<Word>(next()) * bound;
      }
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

 private:
  __extension__ using Word = unsigned __int128;
  void step() {
    constexpr Word kMultiplier =
        (static_cast<Word>(0x2360ed051fc65da4U) << 64) | 0x4385df649fccf645U;
    state_ = state_ * kMultiplier + increment_;
  }
  Word state_ = 0;
  Word increment_ = 0;
};

}  // namespace

std::vector<std::vector<std::int64_t>> engram_primes(const ModelConfig& config) {
  // The search of model.md 9.2 restarts at engram_vocab_size for each n-gram size and skips primes
  // already taken. What is taken is always the smallest free one, so the taken primes are a prefix
  // of the primes from there on, and the search is a walk along them.
  std::vector<std::vector<std::int64_t>> primes;
  std::int64_t candidate = config.engram_vocab_size;
  for (std::size_t layer = 0; layer < config.engram_layer_ids.size(); ++layer) {
    auto& columns = primes.emplace_back();
    for (int column = 0; column < config.engram_columns(); ++column) {
      while (!is_prime(candidate)) ++candidate;
      columns.push_back(candidate++);
    }
  }
  return primes;
}

std::vector<std::int64_t> engram_multipliers(int layer, int compressed_vocab_size, int count) {
  const std::int64_t largest_product = std::numeric_limits<std::int64_t>::max();
  const auto bound = static_cast<std::uint64_t>(largest_product / compressed_vocab_size / 2);
  Pcg64 generator(10007U * static_cast<std::uint64_t>(layer));
  std::vector<std::int64_t> multipliers(static_cast<std::size_t>(count));
  for (std::int64_t& multiplier : multipliers) {
    multiplier = static_cast<std::int64_t>(2 * generator.below(bound) + 1);
  }
  return multipliers;
}

EngramTables engram_tables(const ModelConfig& config) {
  EngramTables tables;
  const auto primes = engram_primes(config);
  for (std::size_t index = 0; index < primes.size(); ++index) {
    EngramLayerTables layer;
    layer.layer = config.engram_layer_ids[index];
    layer.primes = primes[index];
    layer.offsets.resize(layer.primes.size());
    std::exclusive_scan(layer.primes.begin(), layer.primes.end(), layer.offsets.begin(),
                        std::int64_t{0});
    layer.rows = std::accumulate(layer.primes.begin(), layer.primes.end(), std::int64_t{0});
    layer.multipliers = engram_multipliers(layer.layer, config.engram_compressed_vocab_size,
                                           config.engram_max_ngram_size);
    tables.layers.push_back(std::move(layer));
  }
  return tables;
}

}  // namespace deepinfer
