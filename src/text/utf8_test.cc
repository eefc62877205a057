#include "text/utf8.h"

#include <gtest/gtest.h>

#include <random>

#include "text/byte_alphabet.h"

namespace deepinfer {
namespace {

std::string lossy(std::string_view bytes) {
  std::string text;
  append_utf8_lossy(bytes, false, text);
  return text;
}

TEST(Utf8, AcceptsEveryScalarValueAndDecodesIt) {
  for (char32_t value = 0; value < 0x110000; ++value) {
    std::string text;
    append_code_point(value, text);
    if (value >= 0xD800 && value <= 0xDFFF) {
      ASSERT_EQ(valid_utf8_prefix(text), 0u);
      continue;
    }
    ASSERT_EQ(valid_utf8_prefix(text), text.size());
    const DecodedCodePoint decoded = decode_code_point(text.data());
    ASSERT_EQ(decoded.value, value);
    ASSERT_EQ(decoded.length, text.size());
  }
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(valid_utf8_prefix("12345678abc\x80"), 11u);
  EXPECT_EQ(valid_utf8_prefix("é\xC1\xBF"), 2u);
  EXPECT_EQ(valid_utf8_prefix("\xE0\x9F\xBF"), 0u);
  EXPECT_EQ(valid_utf8_prefix("\xF5\x80\x80\x80"), 0u);
  EXPECT_EQ(valid_utf8_prefix("東\xE6\x9D"), 3u);
}

TEST(Utf8, ReplacesEachMaximalPartOnce) {
  // The table of the Unicode standard, section 3.9 (U+FFFD for maximal subparts).
  EXPECT_EQ(lossy("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  EXPECT_EQ(lossy("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA");
  EXPECT_EQ(lossy("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(lossy("\xF0\x9F\x98"), "\uFFFD");
}

TEST(Utf8, HoldsBackOnlyWhatMayBecomeACharacter) {
  const auto held = [](std::string_view bytes) {
    std::string text;
    return append_utf8_lossy(bytes, true, text);
  };
  EXPECT_EQ(held("a"), 0u);
  EXPECT_EQ(held("a\xC3"), 1u);
  EXPECT_EQ(held("a\xE6\x9D"), 2u);
  EXPECT_EQ(held("a\xF0\x9F\x98"), 3u);
  EXPECT_EQ(held("a\xF0\x80"), 0u);
  EXPECT_EQ(held("a\xC0"), 0u);
}

TEST(ByteAlphabet, ShowsEveryByteAsOneCharacterAndBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(from_byte_alphabet(to_byte_alphabet(all)), all);
  EXPECT_EQ(to_byte_alphabet(" a\n"), "ĠaĊ");
}

TEST(ByteAlphabet, LeavesOtherSpellingsAsTheyAre) {
  EXPECT_EQ(from_byte_alphabet("<｜User｜>"), "<｜User｜>");
  EXPECT_EQ(from_byte_alphabet("a b"), "a b");
}

}  // namespace
}  // namespace deepinfer
