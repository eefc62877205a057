#include "text/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "text/official_scanner.h"
#include "text/text_test_support.h"
#include "text/utf8.h"

namespace deepinfer {
namespace {

using ::testing::ElementsAre;
using testing::error_message;
using ::testing::HasSubstr;
using Pieces = std::vector<std::string_view>;

std::vector<SplitStep> official_steps() {
  return parse_tokenizer_file(testing::small_tokenizer_json().dump(), "small.json").split_steps;
}

const PreTokenizer& general_path() {
  static const PreTokenizer pre_tokenizer(official_steps(), "small.json");
  return pre_tokenizer;
}

Pieces scan(std::string_view text) {
  Pieces pieces;
  scan_official_pieces(text, [&](std::string_view piece) { pieces.push_back(piece); });
  return pieces;
}

Pieces split(const std::string& pattern, std::string_view text, bool is_literal = false) {
  return PreTokenizer({{pattern, is_literal}}, "test.json").split(text);
}

TEST(PreTokenizer, CutsAsTheOfficialPatternsSay) {
  const auto check = [](std::string_view text, const auto& pieces) {
    EXPECT_THAT(general_path().split(text), pieces);
    EXPECT_THAT(scan(text), pieces);
  };
  check("", ElementsAre());
  check("1234567", ElementsAre("123", "456", "7"));
  check("a  b", ElementsAre("a", " ", " b"));
  check("a \n\n  b", ElementsAre("a", " \n\n", " ", " b"));
  check("x.foo_bar", ElementsAre("x", ".foo", "_bar"));
  check("東京タワー!!\r\n", ElementsAre("東京タワー", "!!\r\n"));
  check("it's", ElementsAre("it", "'s"));
  check("  12", ElementsAre("  ", "12"));
  check("Ⅷ½٣x", ElementsAre("Ⅷ½٣", "x"));
  check("\x01\x02w\x01", ElementsAre("\x01", "\x02w", "\x01"));
  check("tail   ", ElementsAre("tail", "   "));
  // The third step also cuts inside what the second one matched.
  check("が゛・ー東", ElementsAre("が", "゛・", "ー東"));
  check("\x01\u3097東\u3098\x01", ElementsAre("\x01", "\u3097東", "\u3098", "\x01"));
}

TEST(PreTokenizer, FastScannerEqualsGeneralPathOnEveryCodePoint) {
  for (char32_t value = 0; value < 0x110000; ++value) {
    if (value >= 0xD800 && value <= 0xDFFF) continue;
    // Each class of character answers differently to at least one of these neighbours.
    std::string text;
    for (const char* neighbour : {"a", " ", "!", "1", "\n"}) {
      text += neighbour;
      append_code_point(value, text);
    }
    append_code_point(value, text);
    text += "a";
    ASSERT_EQ(scan(text), general_path().split(text)) << static_cast<unsigned>(value);
  }
}

TEST(PreTokenizer, FastScannerEqualsGeneralPathOnRandomText) {
  std::mt19937 generator(31);
  for (int round = 0; round < 60000; ++round) {
    const std::string text = testing::random_text(generator, 60);
    const Pieces pieces = scan(text);
    ASSERT_EQ(pieces, general_path().split(text)) << text;
    std::string joined;
    for (const std::string_view piece : pieces) {
      ASSERT_FALSE(piece.empty());
      joined += piece;
    }
    ASSERT_EQ(joined, text);
  }
}

TEST(PreTokenizer, RecognisesTheOfficialStepsByTheirText) {
  std::vector<SplitStep> steps = official_steps();
  EXPECT_TRUE(is_official_split(steps));
  steps[1].pattern = "[一-龥]+";
  EXPECT_FALSE(is_official_split(steps));
  steps = official_steps();
  steps.pop_back();
  EXPECT_FALSE(is_official_split(steps));
  steps = official_steps();
  steps[0].is_literal = true;
  EXPECT_FALSE(is_official_split(steps));
}

TEST(PreTokenizer, LongRunsNeedNoDeepStack) {
  const std::string letters(3'000'000, 'a');
  EXPECT_THAT(general_path().split(letters), ElementsAre(letters));
  const std::string groups(300'000, 'b');
  EXPECT_THAT(split("(?:b|c)+x|(?:b|d)+", groups), ElementsAre(groups));
}

TEST(PreTokenizer, LiteralPatternsAreTextNotSyntax) {
  EXPECT_THAT(split("a.b", "xa.baXb", true), ElementsAre("x", "a.b", "aXb"));
  EXPECT_THAT(split("▁", "a▁b", true), ElementsAre("a", "▁", "b"));
}

TEST(PreTokenizer, StepsSeeOnlyTheirPiece) {
  const PreTokenizer pre_tokenizer({{"b", false}, {"a(?!b)", false}}, "test.json");
  EXPECT_THAT(pre_tokenizer.split("aab"), ElementsAre("a", "a", "b"));
}

TEST(RegexTranslation, CoversCharactersNewerThanTheLibrarysTables) {
  // U+0897 is a mark since Unicode 16, U+11F00 since 15; U+180E is no blank in Oniguruma.
  EXPECT_THAT(split("\\p{M}", "a\u0897b"), ElementsAre("a", "\u0897", "b"));
  EXPECT_THAT(split("[x\\p{M}]", "a\u0897b"), ElementsAre("a", "\u0897", "b"));
  EXPECT_THAT(split("\\P{M}+", "a\u0897b"), ElementsAre("a", "\u0897", "b"));
  EXPECT_THAT(split("\\s", "a\u180Eb"), ElementsAre("a\u180Eb"));
  EXPECT_THAT(split("[\\s]", "a\u3000b"), ElementsAre("a", "\u3000", "b"));
  EXPECT_THAT(split("[\\S]+", "a\u180E b"), ElementsAre("a\u180E", " ", "b"));
  EXPECT_THAT(split("\\S+", "a\u180E b"), ElementsAre("a\u180E", " ", "b"));
}

TEST(RegexTranslation, RefusesSyntaxThatDiffersOrIsUnknown) {
  const std::vector<std::string> patterns = {
      "\\h",
      "[\\h]",
      "[a-z&&[aeiou]]",
      "[a-z&&aeiou]",
      "[[:alpha:]]",
      "[a[b]]",
      "\\w",
      "\\d",
      "\\b",
      "\\R",
      "\\X",
      "\\p{Lu}",
      "\\p{Han}",
      "\\p{^L}",
      "\\pL",
      "[\\P{L}]",
      "a{,3}",
      "a{2}+",
      "a**",
      "a{",
      "a}",
      ".",
      "^a",
      "a$",
      "(?i:a)",
      "(?<name>a)",
      "(?#x)",
      "(*ACCEPT)",
      "\\1",
      "\\u0041",
      "\\x41",
      "[]a]",
      "[a-\\s]",
      "[\\s-z]",
      "[a",
      "\\",
      "\\p{L",
      "\\p{Lu",
      "x\\p{No",
      "\\p",
      "[--a]",
      "\\k<a>",
      "\\A",
      "\\Gx",
      "\\é",
  };
  for (const std::string& pattern : patterns) {
    SCOPED_TRACE(pattern);
    const std::string message =
        error_message(ErrorKind::kCheckpoint, [&] { split(pattern, "text"); });
    EXPECT_THAT(message, HasSubstr("test.json"));
    EXPECT_THAT(message, HasSubstr("not supported"));
  }
}

TEST(RegexTranslation, RefusesMalformedAndEmptyMatchingPatterns) {
  for (const std::string pattern : {"(a", "a)", "[z-a]", "*a", "(?:a{99999})", "(?<=a+)b"}) {
    SCOPED_TRACE(pattern);
    EXPECT_THAT(error_message(ErrorKind::kCheckpoint, [&] { split(pattern, "text"); }),
                HasSubstr("malformed"));
  }
  for (const std::string pattern : {"a*", "a?|b", "(?=a)"}) {
    SCOPED_TRACE(pattern);
    EXPECT_THAT(error_message(ErrorKind::kCheckpoint, [&] { split(pattern, "text"); }),
                HasSubstr("empty"));
  }
}

TEST(RegexTranslation, ExplosivePatternsEndInAnError) {
  const std::string text = std::string(200, 'a') + "cb";
  EXPECT_THAT(error_message(ErrorKind::kCheckpoint, [&] { split("(?:a|a|aa)+(?:a|aa)+b", text); }),
              HasSubstr("failed"));
}

}  // namespace
}  // namespace deepinfer
