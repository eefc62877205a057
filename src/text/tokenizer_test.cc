#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "text/text_test_support.h"
#include "text/utf8.h"

namespace deepinfer {
namespace {

using ::testing::ElementsAre;
using testing::error_message;
using ::testing::HasSubstr;
using testing::official_tokenizer;
using testing::read_golden;
using testing::small_tokenizer_json;
using Ids = std::vector<TokenId>;

constexpr auto kNative = TokenizerCompatibility::kNative;
constexpr auto kRelease = TokenizerCompatibility::kRelease;

Tokenizer small_tokenizer(const nlohmann::json& json) {
  return Tokenizer::from_json(json.dump(), "small.json", kNative);
}

TEST(Tokenizer, EncodesAndDecodesEveryGoldenPair) {
  const nlohmann::json cases = read_golden("tokenizer/pairs.json")["cases"];
  ASSERT_EQ(cases.size(), 92u);
  for (const auto& item : cases) {
    const auto text = item["text"].get<std::string>();
    SCOPED_TRACE(item.dump());
    const Ids ids = official_tokenizer().encode(text);
    EXPECT_EQ(ids, item["ids"].get<Ids>());
    EXPECT_EQ(official_tokenizer().decode(ids), item["decoded"].get<std::string>());
    EXPECT_EQ(official_tokenizer().decode(ids, true),
              item["decoded_skip_special"].get<std::string>());
  }
}

TEST(Tokenizer, KnowsEveryGoldenAddedTokenWithItsFlags) {
  const nlohmann::json golden = read_golden("tokenizer/added_tokens.json");
  const nlohmann::json& tokens = golden.is_array() ? golden : golden["added_tokens"];
  ASSERT_EQ(tokens.size(), 1283u);
  for (const auto& token : tokens) {
    SCOPED_TRACE(token.dump());
    const auto id = token["id"].get<TokenId>();
    const auto content = token["content"].get<std::string>();
    EXPECT_EQ(official_tokenizer().token_id(content), id);
    EXPECT_EQ(official_tokenizer().token_text(id), content);
    EXPECT_EQ(official_tokenizer().is_special(id), token["special"].get<bool>());
    EXPECT_TRUE(official_tokenizer().is_added(id));
    EXPECT_THAT(official_tokenizer().encode(content), ElementsAre(id));
  }
}

// Offsets of the golden file count code points.
std::size_t byte_offset(const std::string& text, std::size_t code_points) {
  std::size_t offset = 0;
  for (; code_points > 0; --code_points) offset += decode_code_point(text.data() + offset).length;
  return offset;
}

TEST(Tokenizer, EncodesGoldenPromptsWithControlTokensInTheirRangesOnly) {
  const nlohmann::json golden = read_golden("chat/encode.json");
  int checked = 0;
  for (const auto& item : golden["cases"]) {
    if (!item.contains("ids") || item["ids"].is_null()) continue;
    SCOPED_TRACE(item["name"].dump());
    const auto prompt = item["prompt"].get<std::string>();
    std::vector<SpecialRange> ranges;
    for (const auto& range : item["special_ranges"]) {
      ranges.push_back({byte_offset(prompt, range[0]), byte_offset(prompt, range[1])});
    }
    EXPECT_EQ(official_tokenizer().encode_prompt(prompt, ranges), item["ids"].get<Ids>());
    ++checked;
  }
  EXPECT_EQ(checked, 55);
}

TEST(Tokenizer, KeepsSpecialSpellingsPlainWithoutParseSpecial) {
  const std::string text = "a<｜User｜>b<｜end▁of▁sentence｜>";
  const Ids plain = official_tokenizer().encode(text, {.parse_special = false});
  for (const TokenId id : plain) EXPECT_FALSE(official_tokenizer().is_added(id));
  EXPECT_EQ(official_tokenizer().decode(plain), text);
  EXPECT_THAT(official_tokenizer().encode(text),
              ElementsAre(*official_tokenizer().token_id("a"), 128803,
                          *official_tokenizer().token_id("b"), 1));
}

TEST(Tokenizer, AddsBosUnlessTheTextBeginsWithIt) {
  const Tokenizer& tokenizer = official_tokenizer();
  const Ids hello = tokenizer.encode("Hello");
  Ids expected = {0};
  expected.insert(expected.end(), hello.begin(), hello.end());
  EXPECT_EQ(tokenizer.encode("Hello", {.add_bos = true}), expected);
  EXPECT_EQ(tokenizer.encode("<｜begin▁of▁sentence｜>Hello", {.add_bos = true}), expected);
  EXPECT_THAT(tokenizer.encode("", {.add_bos = true}), ElementsAre(0));
  // Plain text that only looks like BOS is text.
  const Ids plain =
      tokenizer.encode("<｜begin▁of▁sentence｜>", {.parse_special = false, .add_bos = true});
  EXPECT_EQ(plain.front(), 0);
  EXPECT_GT(plain.size(), 2u);
}

TEST(Tokenizer, DecodeUndoesEncodeOnRandomText) {
  std::mt19937 generator(7);
  for (int round = 0; round < 20000; ++round) {
    const std::string text = testing::random_text(generator, 60);
    for (const bool parse_special : {false, true}) {
      const Ids ids = official_tokenizer().encode(text, {.parse_special = parse_special});
      ASSERT_EQ(official_tokenizer().decode(ids), text);
    }
  }
}

TEST(Tokenizer, DecodeUndoesEncodeAroundSpecialTokens) {
  std::mt19937 generator(8);
  const std::vector<std::string> specials = {"<｜User｜>", "<think>", "｜DSML｜", "<｜▁pad▁｜>",
                                             "<｜Use",     "<",       "｜"};
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (int part = 0; part < 5; ++part) {
      text += testing::random_text(generator, 10) + specials[generator() % specials.size()];
    }
    ASSERT_EQ(official_tokenizer().decode(official_tokenizer().encode(text)), text);
  }
}

TEST(Tokenizer, GivesTheSameIdsThroughFastAndGeneralPath) {
  // A lookahead that always holds makes the pattern another string with the same meaning.
  nlohmann::json json = nlohmann::json::parse(testing::read_test_file(
      std::filesystem::path(DEEPINFER_OFFICIAL_TOKENIZER_DIR) / "tokenizer.json"));
  auto& pattern = json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"];
  pattern = "(?=\\p{N})" + pattern.get<std::string>();
  const Tokenizer general = Tokenizer::from_json(json.dump(), "general.json", kNative);
  ASSERT_FALSE(general.uses_fast_scanner());
  ASSERT_TRUE(official_tokenizer().uses_fast_scanner());
  std::mt19937 generator(9);
  for (int round = 0; round < 5000; ++round) {
    const std::string text = testing::random_text(generator, 80);
    ASSERT_EQ(general.encode(text), official_tokenizer().encode(text)) << text;
  }
}

TEST(Tokenizer, GivesTheSameIdsWithACrowdedCacheAsWithAFreshOne) {
  const Tokenizer fresh = Tokenizer::load(DEEPINFER_OFFICIAL_TOKENIZER_DIR, kNative);
  std::mt19937 generator(10);
  std::vector<std::string> texts;
  for (int round = 0; round < 20000; ++round) texts.push_back(testing::random_text(generator, 30));
  for (const std::string& text : texts) official_tokenizer().encode(text);
  for (std::size_t index = 0; index < texts.size(); index += 101) {
    EXPECT_EQ(official_tokenizer().encode(texts[index]), fresh.encode(texts[index]));
  }
}

TEST(Tokenizer, EncodesFromManyThreadsAtOnce) {
  std::mt19937 generator(11);
  std::vector<std::string> texts;
  std::vector<Ids> expected;
  for (int round = 0; round < 200; ++round) {
    texts.push_back(testing::random_text(generator, 200));
    expected.push_back(official_tokenizer().encode(texts.back()));
  }
  std::vector<std::thread> threads;
  std::array<int, 4> differences{};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 5; ++round) {
        for (std::size_t index = 0; index < texts.size(); ++index) {
          const Ids ids = official_tokenizer().encode(texts[index]);
          if (ids != expected[index] || official_tokenizer().decode(ids) != texts[index]) {
            ++differences[thread];
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(differences, ElementsAre(0, 0, 0, 0));
}

TEST(Tokenizer, TokenBytesJoinedAreTheText) {
  const std::string text = "🌶 naïve 東京 \xE2\x80\x8B";
  std::string joined;
  for (const TokenId id : official_tokenizer().encode(text)) {
    joined += official_tokenizer().token_bytes(id);
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(official_tokenizer().token_text(*official_tokenizer().token_id("Ġthe")), "Ġthe");
  EXPECT_EQ(official_tokenizer().token_bytes(*official_tokenizer().token_id("Ġthe")), " the");
  EXPECT_EQ(official_tokenizer().token_id("no such token"), std::nullopt);
}

TEST(Tokenizer, DecodesHalfACharacterAsReplacementCharacter) {
  EXPECT_EQ(official_tokenizer().encode("🌶"), (Ids{21716, 117}));
  EXPECT_EQ(official_tokenizer().decode(Ids{21716}), "\xEF\xBF\xBD");
  EXPECT_EQ(official_tokenizer().decode(Ids{21716, 117}), "🌶");
}

TEST(Tokenizer, ReleaseModeFixesTheSpecialIdsAndRegistersPlaceholders) {
  const Tokenizer release = Tokenizer::load(DEEPINFER_OFFICIAL_TOKENIZER_DIR);
  EXPECT_EQ(release.bos_id(), 0);
  EXPECT_EQ(release.eos_id(), 1);
  EXPECT_EQ(release.pad_id(), 2);
  EXPECT_TRUE(release.adds_bos());
  EXPECT_EQ(release.vocab_size(), 129280);
  EXPECT_EQ(release.id_limit(), 129301);
  EXPECT_EQ(release.token_id("<|place_holder_mm_span_0000|>"), 129280);
  EXPECT_EQ(release.token_id("<|place_holder_mm_span_0020|>"), 129300);
  EXPECT_EQ(release.decode(Ids{129300}), "<|place_holder_mm_span_0020|>");
}

TEST(Tokenizer, NativeModeFollowsTheFiles) {
  EXPECT_EQ(official_tokenizer().bos_id(), 0);
  EXPECT_EQ(official_tokenizer().eos_id(), 1);
  EXPECT_EQ(official_tokenizer().pad_id(), 1);
  EXPECT_FALSE(official_tokenizer().adds_bos());
  EXPECT_EQ(official_tokenizer().id_limit(), 129280);
}

TEST(Tokenizer, ReleaseModeRefusesOtherSpecialIds) {
  const std::string message = error_message(ErrorKind::kCheckpoint, [] {
    Tokenizer::from_json(small_tokenizer_json().dump(), "small.json", kRelease);
  });
  EXPECT_THAT(message, HasSubstr("small.json"));
  EXPECT_THAT(message, HasSubstr("<｜begin▁of▁sentence｜>"));
}

TEST(Tokenizer, LoadsTheTinyRandomCheckpointsTokenizer) {
  const Tokenizer tokenizer =
      Tokenizer::load(std::filesystem::path(DEEPINFER_GOLDEN_DIR) / "tiny-random");
  EXPECT_EQ(tokenizer.vocab_size(), 512);
  EXPECT_FALSE(tokenizer.uses_fast_scanner());
  const std::string text = "The water's 42 and \n it'll 東 go";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(Tokenizer, TakesTheLongestAddedTokenThatStartsLeftmost) {
  nlohmann::json json = small_tokenizer_json();
  const auto added = [](int id, const char* content, bool normalized) {
    return nlohmann::json{{"id", id}, {"content", content}, {"normalized", normalized}};
  };
  json["added_tokens"] = {added(258, "<e", false), added(259, "<end>", false),
                          added(260, "d>x", true), added(261, "x<", true)};
  const Tokenizer tokenizer = small_tokenizer(json);
  EXPECT_THAT(tokenizer.encode("<end>"), ElementsAre(259));
  EXPECT_THAT(tokenizer.encode("<en"), ElementsAre(258, 'n'));
  // The pass over entries with normalized=false comes first, whatever starts further left.
  EXPECT_THAT(tokenizer.encode("x<end>x"), ElementsAre('x', 259, 'x'));
  EXPECT_THAT(tokenizer.encode("d>x<"), ElementsAre(260, '<'));
}

TEST(Tokenizer, IgnoreMergesTakesAWholePieceFromTheVocabulary) {
  nlohmann::json json = small_tokenizer_json();
  json["model"]["vocab"]["Ġworld"] = 259;
  EXPECT_EQ(small_tokenizer(json).encode(" world").size(), 6u);
  json["model"]["ignore_merges"] = true;
  const Tokenizer tokenizer = small_tokenizer(json);
  EXPECT_THAT(tokenizer.encode(" world"), ElementsAre(259));
  EXPECT_THAT(tokenizer.encode("hello"), ElementsAre(257, 'l', 'o'));
}

TEST(Tokenizer, TemplateProcessingTurnsBosOn) {
  nlohmann::json json = small_tokenizer_json();
  json["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single",
                             {{{"SpecialToken", {{"id", "<end>"}, {"type_id", 0}}}},
                              {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}}};
  const Tokenizer tokenizer = small_tokenizer(json);
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.bos_id(), 258);
  EXPECT_THAT(tokenizer.encode("he", {.add_bos = true}), ElementsAre(258, 256));
}

TEST(Tokenizer, StaysUsableAfterAMove) {
  Tokenizer first = small_tokenizer(small_tokenizer_json());
  const Tokenizer second = std::move(first);
  EXPECT_THAT(second.encode("hello<end>"), ElementsAre(257, 'l', 'o', 258));
}

TEST(TokenizerErrors, InvalidUtf8NamesTheByte) {
  const auto message = [](std::string_view text) {
    return error_message(ErrorKind::kInvalidArgument, [&] { official_tokenizer().encode(text); });
  };
  EXPECT_THAT(message("\xFF"), HasSubstr("byte 0"));
  EXPECT_THAT(message("abcdefghij\xE6\x9D"), HasSubstr("byte 10"));
  EXPECT_THAT(message("é\xED\xA0\x80"), HasSubstr("byte 2"));
  EXPECT_THAT(message("\xC0\x80"), HasSubstr("byte 0"));
  EXPECT_THAT(message("a\xF4\x90\x80\x80"), HasSubstr("byte 1"));
  EXPECT_THAT(error_message(ErrorKind::kInvalidArgument,
                            [] { official_tokenizer().encode_prompt("ab\x80", {}); }),
              HasSubstr("byte 2"));
}

TEST(TokenizerErrors, IdsOutsideTheVocabularyAreRefused) {
  const Tokenizer tokenizer = small_tokenizer(small_tokenizer_json());
  for (const TokenId id : {-1, 259, std::numeric_limits<TokenId>::max()}) {
    for (const std::string& message :
         {error_message(ErrorKind::kInvalidArgument, [&] { tokenizer.decode(Ids{1, id}); }),
          error_message(ErrorKind::kInvalidArgument, [&] { tokenizer.token_bytes(id); }),
          error_message(ErrorKind::kInvalidArgument, [&] { tokenizer.token_text(id); }),
          error_message(ErrorKind::kInvalidArgument, [&] { tokenizer.is_special(id); }),
          error_message(ErrorKind::kInvalidArgument, [&] { tokenizer.is_added(id); })}) {
      EXPECT_THAT(message, HasSubstr(std::to_string(id)));
      EXPECT_THAT(message, HasSubstr("0..258"));
    }
  }
}

TEST(TokenizerErrors, SpecialRangesMustHoldOneAddedTokenEach) {
  const Tokenizer tokenizer = small_tokenizer(small_tokenizer_json());
  const std::string prompt = "ab<end>he<end>";
  EXPECT_THAT(tokenizer.encode_prompt(prompt, std::vector<SpecialRange>{{2, 7}, {9, 14}}),
              ElementsAre('a', 'b', 258, 256, 258));
  const auto message = [&](const std::vector<SpecialRange>& ranges) {
    return error_message(ErrorKind::kInvalidArgument,
                         [&] { tokenizer.encode_prompt(prompt, ranges); });
  };
  EXPECT_THAT(message({{2, 6}}), HasSubstr("'<end'"));
  EXPECT_THAT(message({{7, 9}}), HasSubstr("'he'"));  // in the vocabulary, but not added
  EXPECT_THAT(message({{2, 2}}), HasSubstr("no added token"));
  EXPECT_THAT(message({{9, 14}, {2, 7}}), HasSubstr("2..7"));
  EXPECT_THAT(message({{2, 7}, {2, 7}}), HasSubstr("overlaps"));
  EXPECT_THAT(message({{9, 15}}), HasSubstr("14 bytes"));
  EXPECT_THAT(message({{7, 2}}), HasSubstr("7..2"));
}

TEST(TokenizerErrors, BosThatTheTokenizerLacksIsRefused) {
  const Tokenizer tokenizer = small_tokenizer(small_tokenizer_json());
  EXPECT_EQ(tokenizer.bos_id(), std::nullopt);
  EXPECT_THAT(
      error_message(ErrorKind::kInvalidArgument, [&] { tokenizer.encode("a", {.add_bos = true}); }),
      HasSubstr("BOS"));
}

TEST(TokenizerErrors, MissingFileIsNamed) {
  EXPECT_THAT(error_message(ErrorKind::kCheckpoint, [] { Tokenizer::load("/nonexistent/model"); }),
              HasSubstr("/nonexistent/model/tokenizer.json"));
}

TEST(TokenizerCompatibility, ParsesItsTwoNames) {
  EXPECT_EQ(parse_tokenizer_compatibility("release", "config.json"), kRelease);
  EXPECT_EQ(parse_tokenizer_compatibility("native", "config.json"), kNative);
  EXPECT_THAT(error_message(ErrorKind::kCheckpoint,
                            [] { parse_tokenizer_compatibility("old", "config.json"); }),
              HasSubstr("config.json"));
}

}  // namespace
}  // namespace deepinfer
