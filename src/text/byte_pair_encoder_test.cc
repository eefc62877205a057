#include "text/byte_pair_encoder.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>

namespace deepinfer {
namespace {

struct RandomModel {
  std::array<TokenId, 256> byte_tokens{};
  std::vector<Merge> merges;
};

// Merges over few letters, in an order where a later rank may build parts of an earlier one: rules
// that real vocabularies follow by accident must not be needed.
RandomModel random_model(std::mt19937& generator, int merge_count) {
  RandomModel model;
  std::map<std::string, TokenId> ids;
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) {
    model.byte_tokens[byte] = 255 - byte;
    if (byte >= 'a' && byte < 'e') texts.emplace_back(1, static_cast<char>(byte));
  }
  for (const std::string& text : texts) {
    ids[text] = model.byte_tokens[static_cast<std::uint8_t>(text[0])];
  }
  std::set<std::pair<TokenId, TokenId>> pairs;
  while (static_cast<int>(model.merges.size()) < merge_count) {
    const std::string left = texts[generator() % texts.size()];
    const std::string right = texts[generator() % texts.size()];
    const auto fresh = static_cast<TokenId>(256 + ids.size());
    const TokenId merged = ids.emplace(left + right, fresh).first->second;
    if (merged == fresh) texts.push_back(left + right);
    if (pairs.emplace(ids[left], ids[right]).second) {
      model.merges.push_back({ids[left], ids[right], merged});
    }
  }
  std::shuffle(model.merges.begin(), model.merges.end(), generator);
  return model;
}

// The definition: while any pair can merge, merge the leftmost one of the lowest rank.
std::vector<TokenId> merge_by_definition(const RandomModel& model, std::string_view piece) {
  std::vector<TokenId> symbols;
  for (const char character : piece) {
    symbols.push_back(model.byte_tokens[static_cast<std::uint8_t>(character)]);
  }
  while (true) {
    bool merged = false;
    for (const Merge& merge : model.merges) {
      for (std::size_t index = 0; !merged && index + 1 < symbols.size(); ++index) {
        if (symbols[index] == merge.left && symbols[index + 1] == merge.right) {
          symbols[index] = merge.merged;
          symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(index) + 1);
          merged = true;
        }
      }
      if (merged) break;
    }
    if (!merged) return symbols;
  }
}

std::string random_piece(std::mt19937& generator, std::size_t length) {
  std::string piece;
  while (piece.size() < length) piece += static_cast<char>('a' + generator() % 4);
  return piece;
}

void check_against_definition(int seed, std::size_t min_length, std::size_t max_length,
                              int rounds) {
  std::mt19937 generator(seed);
  BytePairEncoder::Workspace workspace;
  for (int round = 0; round < rounds; ++round) {
    const RandomModel model = random_model(generator, 1 + static_cast<int>(generator() % 60));
    const BytePairEncoder encoder(model.merges, model.byte_tokens);
    for (int repeat = 0; repeat < 5; ++repeat) {
      const std::size_t length = min_length + generator() % (max_length - min_length + 1);
      const std::string piece = random_piece(generator, length);
      std::vector<TokenId> ids = {-7};
      encoder.encode(piece, workspace, ids);
      ASSERT_EQ(ids.front(), -7);  // what was there stays
      ids.erase(ids.begin());
      ASSERT_EQ(ids, merge_by_definition(model, piece)) << piece;
    }
  }
}

TEST(BytePairEncoder, MergesShortPiecesByTheDefinition) {
  check_against_definition(41, 0, 20, 400);
  check_against_definition(42, 100, 128, 60);
}

TEST(BytePairEncoder, MergesLongPiecesByTheDefinition) {
  check_against_definition(43, 129, 400, 100);
}

TEST(BytePairEncoder, MergesTheLeftmostOfEqualRanks) {
  std::array<TokenId, 256> byte_tokens{};
  for (int byte = 0; byte < 256; ++byte) byte_tokens[byte] = byte;
  const BytePairEncoder encoder({{'a', 'a', 256}}, byte_tokens);
  BytePairEncoder::Workspace workspace;
  for (const std::size_t length : {std::size_t{3}, std::size_t{1001}}) {
    std::vector<TokenId> ids;
    encoder.encode(std::string(length, 'a'), workspace, ids);
    std::vector<TokenId> expected(length / 2, 256);
    expected.push_back('a');
    EXPECT_EQ(ids, expected);
  }
}

TEST(BytePairEncoder, WorksWithoutAnyMerges) {
  std::array<TokenId, 256> byte_tokens{};
  for (int byte = 0; byte < 256; ++byte) byte_tokens[byte] = byte;
  const BytePairEncoder encoder({}, byte_tokens);
  BytePairEncoder::Workspace workspace;
  std::vector<TokenId> ids;
  encoder.encode("ab", workspace, ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{'a', 'b'}));
}

}  // namespace
}  // namespace deepinfer
