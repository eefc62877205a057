#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "text/text_test_support.h"
#include "text/utf8.h"

namespace deepinfer {
namespace {

using testing::official_tokenizer;
using Ids = std::vector<TokenId>;

constexpr const char* kReplacement = "\xEF\xBF\xBD";

TEST(Detokenizer, HoldsHalfACharacterBackUntilItIsWhole) {
  Detokenizer detokenizer(official_tokenizer());
  EXPECT_EQ(detokenizer.push(21716), "");
  EXPECT_EQ(detokenizer.push(117), "🌶");
  EXPECT_EQ(detokenizer.push(28927), "");
  EXPECT_EQ(detokenizer.push(225), "😀");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, FlushesWhatNeverBecameACharacter) {
  Detokenizer detokenizer(official_tokenizer());
  EXPECT_EQ(detokenizer.push(21716), "");
  EXPECT_EQ(detokenizer.finish(), kReplacement);
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, ReplacesBytesAsSoonAsTheyCannotBecomeACharacter) {
  const TokenId letter = *official_tokenizer().token_id("a");
  Detokenizer detokenizer(official_tokenizer());
  EXPECT_EQ(detokenizer.push(21716), "");
  EXPECT_EQ(detokenizer.push(letter), std::string(kReplacement) + "a");
  // A continuation byte with nothing before it: the prompt may have ended inside its character.
  EXPECT_EQ(detokenizer.push(117), kReplacement);
}

TEST(Detokenizer, SkipsSpecialTokensOnRequestOnly) {
  Detokenizer all(official_tokenizer());
  EXPECT_EQ(all.push(1), "<｜end▁of▁sentence｜>");
  Detokenizer skipping(official_tokenizer(), true);
  EXPECT_EQ(skipping.push(21716), "");
  EXPECT_EQ(skipping.push(1), "");
  EXPECT_EQ(skipping.push(117), "🌶");
  // Role tokens are not special.
  EXPECT_EQ(skipping.push(128803), "<｜User｜>");
}

TEST(Detokenizer, RefusesAnUnknownIdAndGoesOn) {
  Detokenizer detokenizer(official_tokenizer());
  EXPECT_EQ(detokenizer.push(21716), "");
  testing::error_message(ErrorKind::kInvalidArgument, [&] { detokenizer.push(129280); });
  EXPECT_EQ(detokenizer.push(117), "🌶");
}

TEST(Detokenizer, JoinedPiecesEqualTheDecodedWholeAndAreEachValid) {
  std::mt19937 generator(21);
  const TokenId limit = official_tokenizer().id_limit();
  // Tokens that are parts of characters are rare in the vocabulary: draw half from them.
  Ids parts;
  for (TokenId id = 0; id < limit; ++id) {
    const std::string_view bytes = official_tokenizer().token_bytes(id);
    if (valid_utf8_prefix(bytes) != bytes.size()) parts.push_back(id);
  }
  ASSERT_GT(parts.size(), 100u);
  for (int round = 0; round < 5000; ++round) {
    const bool skip_special = round % 2 == 1;
    Detokenizer detokenizer(official_tokenizer(), skip_special);
    Ids ids;
    std::string joined;
    for (int step = 0; step < 30; ++step) {
      ids.push_back(generator() % 2 == 0 ? parts[generator() % parts.size()]
                                         : static_cast<TokenId>(generator() % limit));
      const std::string piece = detokenizer.push(ids.back());
      ASSERT_EQ(valid_utf8_prefix(piece), piece.size());
      joined += piece;
      // At most the three bytes of an unfinished character are missing.
      const std::string whole = official_tokenizer().decode(ids, skip_special);
      ASSERT_TRUE(whole.starts_with(joined));
      ASSERT_TRUE(whole == joined || whole == joined + kReplacement);
    }
    joined += detokenizer.finish();
    ASSERT_EQ(joined, official_tokenizer().decode(ids, skip_special));
  }
}

TEST(Detokenizer, StreamsEncodedTextBackExactly) {
  std::mt19937 generator(22);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = testing::random_text(generator, 60);
    Detokenizer detokenizer(official_tokenizer());
    std::string joined;
    for (const TokenId id : official_tokenizer().encode(text)) joined += detokenizer.push(id);
    ASSERT_EQ(joined, text);
    ASSERT_EQ(detokenizer.finish(), "");
  }
}

}  // namespace
}  // namespace deepinfer
