#include "engine/text_stream.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "base/tokenizer_compatibility.h"

namespace deepinfer {
namespace {

class TextStreamTest : public ::testing::Test {
 protected:
  static const Tokenizer& tokenizer() {
    static const Tokenizer shared =
        Tokenizer::load(std::filesystem::path(DEEPINFER_GOLDEN_DIR) / "tiny-random",
                        TokenizerCompatibility::kNative);
    return shared;
  }

  struct Run {
    std::string text, plain;
    std::vector<std::string> deltas;
    std::string match;
    std::size_t tokens = 0;
  };

  static Run run(const std::vector<TokenId>& ids, const std::vector<std::string>& stop) {
    TextStream stream(tokenizer(), stop);
    Run result;
    const auto take = [&](const TextStream::Delta& delta) {
      result.text += delta.text;
      result.plain += delta.text_skip_special;
      result.deltas.push_back(delta.text);
    };
    for (const TokenId id : ids) {
      take(stream.push(id));
      ++result.tokens;
      if (stream.match() != nullptr) break;
    }
    take(stream.finish());
    if (stream.match() != nullptr) result.match = *stream.match();
    EXPECT_EQ(result.text, stream.text());
    EXPECT_EQ(result.plain, stream.text_skip_special());
    return result;
  }

  static std::vector<TokenId> ids_of(const std::string& text) { return tokenizer().encode(text); }
};

TEST_F(TextStreamTest, WithoutStopStringsTextEqualsDecode) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<TokenId> ids;
    for (int i = 0; i < 40; ++i) {
      ids.push_back(
          static_cast<TokenId>(random() % static_cast<unsigned>(tokenizer().vocab_size())));
    }
    const Run result = run(ids, {});
    EXPECT_EQ(result.text, tokenizer().decode(ids));
    EXPECT_EQ(result.plain, tokenizer().decode(ids, true));
  }
}

TEST_F(TextStreamTest, CutsAtTheStopStringAndNamesIt) {
  const Run result = run(ids_of("The answer is 42. END and more"), {"zzz", " END"});
  EXPECT_EQ(result.text, "The answer is 42.");
  EXPECT_EQ(result.plain, "The answer is 42.");
  EXPECT_EQ(result.match, " END");
}

TEST_F(TextStreamTest, TheEarliestMatchWins) {
  const Run result = run(ids_of("one two three"), {"three", "two"});
  EXPECT_EQ(result.text, "one ");
  EXPECT_EQ(result.match, "two");
}

TEST_F(TextStreamTest, NeverHandsOutAPartOfAStopString) {
  // A beginning of the stop string that leads nowhere comes out late, but complete.
  const Run miss = run(ids_of("a STO b STOP"), {"STOPPED"});
  EXPECT_EQ(miss.text, "a STO b STOP");
  EXPECT_TRUE(miss.match.empty());
  const Run hit = run(ids_of("a STO b STOPPED c"), {"STOPPED"});
  EXPECT_EQ(hit.text, "a STO b ");
  for (const std::string& delta : hit.deltas) EXPECT_EQ(delta.find("STOP"), std::string::npos);
}

TEST_F(TextStreamTest, AnyCutOfTheStopStringIntoTokensIsFound) {
  // Bytes as single tokens and as merged ones.
  const std::string text = "alpha <|end of text|> omega";
  std::vector<TokenId> bytes;
  for (const char c : text) {
    const auto piece = ids_of(std::string(1, c));
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  }
  for (const auto& ids : {bytes, ids_of(text)}) {
    const Run result = run(ids, {"end of"});
    EXPECT_EQ(result.text, "alpha <|");
    EXPECT_EQ(result.match, "end of");
    EXPECT_LT(result.tokens, ids.size());
  }
}

TEST_F(TextStreamTest, SpecialTokensCountInOneTextOnly) {
  ASSERT_TRUE(tokenizer().eos_id().has_value());
  const TokenId eos = *tokenizer().eos_id();
  ASSERT_TRUE(tokenizer().is_special(eos));
  std::vector<TokenId> ids = ids_of("left");
  ids.push_back(eos);
  const auto right = ids_of(" right STOP tail");
  ids.insert(ids.end(), right.begin(), right.end());
  const Run result = run(ids, {" STOP"});
  EXPECT_EQ(result.text, "left" + std::string(tokenizer().token_bytes(eos)) + " right");
  EXPECT_EQ(result.plain, "left right");
}

TEST_F(TextStreamTest, HoldsBackUnfinishedCharacters) {
  const std::string text = "a€b";
  std::vector<TokenId> bytes;
  for (const TokenId id : ids_of(text)) bytes.push_back(id);
  const Run whole = run(bytes, {});
  EXPECT_EQ(whole.text, text);
  for (const std::string& delta : whole.deltas) {
    EXPECT_EQ(delta.find("\xEF\xBF\xBD"), std::string::npos);
  }
}

TEST_F(TextStreamTest, StopStringsAreIgnoredWhileTheyMustNotMatch) {
  TextStream stream(tokenizer(), {"two"});
  std::string text;
  const auto ids = ids_of("one two three two four");
  int matched_at = -1;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool may_match = text.find("three") != std::string::npos;
    text += stream.push(ids[i], may_match).text;
    if (stream.match() != nullptr) {
      matched_at = static_cast<int>(i);
      break;
    }
  }
  EXPECT_GE(matched_at, 0);
  EXPECT_EQ(text, "one two three ");
}

TEST_F(TextStreamTest, UnknownIdsHaveNoText) {
  TextStream stream(tokenizer(), {});
  EXPECT_EQ(stream.push(tokenizer().id_limit() + 5).text, "");
}

}  // namespace
}  // namespace deepinfer
