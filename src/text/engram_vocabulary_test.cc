#include "text/engram_vocabulary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "text/text_test_support.h"

namespace deepinfer {
namespace {

using testing::official_tokenizer;

// FIPS 180-4, for the check below alone.
std::string sha256_hex(std::string message) {
  // The first 32 bits of the fractional parts of square and cube roots of the first primes,
  // computed with integers: floor(root(p) * 2^32) mod 2^32.
  const auto root_bits = [](std::uint64_t prime, int power) {
    // The largest r with r^power <= prime * 2^(32 * power); r has at most 35 bits.
    std::uint64_t root = 0;
    for (int bit = 36; bit >= 0; --bit) {
      const unsigned __int128 candidate = root | std::uint64_t{1} << bit;
      unsigned __int128 product = candidate * candidate;
      unsigned __int128 limit = static_cast<unsigned __int128>(prime) << 64;
      if (power == 3) {
        // candidate^3 <= prime * 2^96, both sides divided by candidate.
        limit = ((static_cast<unsigned __int128>(prime) << 96) / candidate);
      }
      if (product <= limit) root = static_cast<std::uint64_t>(candidate);
    }
    return static_cast<std::uint32_t>(root);
  };
  std::vector<std::uint64_t> primes;
  for (std::uint64_t value = 2; primes.size() < 64; ++value) {
    if (std::none_of(primes.begin(), primes.end(), [&](auto p) { return value % p == 0; })) {
      primes.push_back(value);
    }
  }
  std::array<std::uint32_t, 64> constants{};
  std::array<std::uint32_t, 8> state{};
  for (int index = 0; index < 64; ++index) constants[index] = root_bits(primes[index], 3);
  for (int index = 0; index < 8; ++index) state[index] = root_bits(primes[index], 2);

  const std::uint64_t bits = message.size() * 8;
  message += '\x80';
  while (message.size() % 64 != 56) message += '\0';
  for (int shift = 56; shift >= 0; shift -= 8) message += static_cast<char>(bits >> shift);
  const auto rotate = [](std::uint32_t value, int by) { return value >> by | value << (32 - by); };
  for (std::size_t block = 0; block < message.size(); block += 64) {
    std::array<std::uint32_t, 64> words{};
    for (int index = 0; index < 64; ++index) {
      if (index < 16) {
        for (int byte = 0; byte < 4; ++byte) {
          words[index] =
              words[index] << 8 | static_cast<std::uint8_t>(message[block + 4 * index + byte]);
        }
        continue;
      }
      const std::uint32_t a = words[index - 15];
      const std::uint32_t b = words[index - 2];
      words[index] = words[index - 16] + words[index - 7] +
                     (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) +
                     (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (int index = 0; index < 64; ++index) {
      const std::uint32_t first = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                                  ((e & f) ^ (~e & g)) + constants[index] + words[index];
      const std::uint32_t second =
          (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + first;
      d = c;
      c = b;
      b = a;
      a = first + second;
    }
    const std::array<std::uint32_t, 8> mixed = {a, b, c, d, e, f, g, h};
    for (int index = 0; index < 8; ++index) state[index] += mixed[index];
  }
  std::string hex;
  for (const std::uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) hex += "0123456789abcdef"[word >> shift & 15];
  }
  return hex;
}

TEST(Sha256, KnowsItsTestVectors) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(EngramVocabulary, MapOfTheOfficialTokenizerIsExact) {
  const std::vector<std::int32_t> map = engram_token_map(official_tokenizer());
  ASSERT_EQ(map.size(), 129280u);
  EXPECT_EQ(*std::max_element(map.begin(), map.end()) + 1, 99092);
  const std::vector<std::pair<int, int>> samples = {
      {0, 0},        {1, 1},          {2, 2},          {100, 74},       {1000, 604},
      {10000, 8184}, {100000, 76407}, {128803, 98615}, {129264, 99076}, {129279, 99091}};
  for (const auto& [id, key] : samples) EXPECT_EQ(map[id], key) << id;
  std::string bytes(map.size() * 4, '\0');
  std::memcpy(bytes.data(), map.data(), bytes.size());
  EXPECT_EQ(sha256_hex(bytes), "c60a86322ec17b4142bfef3c57a8d81fb428550cdf487f88a4320cb59fe46481");
}

TEST(EngramVocabulary, PlaceholdersOfReleaseModeDoNotCount) {
  const Tokenizer release = Tokenizer::load(DEEPINFER_OFFICIAL_TOKENIZER_DIR);
  EXPECT_EQ(engram_token_map(release), engram_token_map(official_tokenizer()));
}

TEST(EngramVocabulary, MapOfTheTinyRandomCheckpointIsExact) {
  const std::filesystem::path golden(DEEPINFER_GOLDEN_DIR);
  const std::string file =
      testing::read_test_file(golden / "tiny-random-expected" / "engram-hash.safetensors");
  std::uint64_t header_size = 0;
  std::memcpy(&header_size, file.data(), sizeof header_size);
  const auto header = nlohmann::json::parse(file.substr(8, header_size));
  const auto offsets = header["token_map"]["data_offsets"].get<std::vector<std::size_t>>();
  std::vector<std::int32_t> expected((offsets[1] - offsets[0]) / 4);
  std::memcpy(expected.data(), file.data() + 8 + header_size + offsets[0], expected.size() * 4);
  EXPECT_EQ(engram_token_map(Tokenizer::load(golden / "tiny-random")), expected);
}

TEST(EngramNormalize, FoldsFormsAccentsCaseAndBlanks) {
  EXPECT_EQ(engram_normalize("Ünïcode"), "unicode");
  EXPECT_EQ(engram_normalize("ＡＢＣ ﬁ"), "abc fi");
  EXPECT_EQ(engram_normalize("İ"), "i");
  EXPECT_EQ(engram_normalize("ΣΑΣ"), "σασ");
  EXPECT_EQ(engram_normalize("한"), "\u1112\u1161\u11AB");
  EXPECT_EQ(engram_normalize("  a \t\r\n b  "), "a b");
  EXPECT_EQ(engram_normalize("\u3000x\u2028"), "x");
  EXPECT_EQ(engram_normalize("\x1Fx\x1C"), "\x1Fx\x1C");
  EXPECT_EQ(engram_normalize("\u0301"), "");
}

TEST(EngramNormalize, KeepsALoneBlank) {
  for (const char* blanks : {" ", "  ", "\n", "\r\n\t", "\u00A0", "\u3000"}) {
    EXPECT_EQ(engram_normalize(blanks), " ");
  }
  EXPECT_EQ(engram_normalize("\u2028"), "");
  EXPECT_EQ(engram_normalize("a\uE000b"), "a b");
}

}  // namespace
}  // namespace deepinfer
