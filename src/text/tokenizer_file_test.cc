#include "text/tokenizer_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/text_test_support.h"

namespace deepinfer {
namespace {

using testing::error_message;
using ::testing::HasSubstr;
using testing::small_tokenizer_json;
using Json = nlohmann::json;

std::string parse_error(const std::string& json) {
  return error_message(ErrorKind::kCheckpoint, [&] { parse_tokenizer_file(json, "some.json"); });
}

// The small tokenizer with the value at `pointer` replaced must be refused with a message that
// names the file, and `expected`.
void expect_refused(const std::string& pointer, const Json& value, const std::string& expected) {
  SCOPED_TRACE(pointer + " = " + value.dump());
  Json json = small_tokenizer_json();
  json[Json::json_pointer(pointer)] = value;
  const std::string message = parse_error(json.dump());
  EXPECT_THAT(message, HasSubstr("some.json"));
  EXPECT_THAT(message, HasSubstr(expected));
}

TEST(TokenizerFile, ReadsAValidFile) {
  const TokenizerDefinition definition =
      parse_tokenizer_file(small_tokenizer_json().dump(), "some.json");
  EXPECT_EQ(definition.spellings.size(), 259u);
  EXPECT_EQ(definition.model_vocab_size, 258);
  EXPECT_EQ(definition.spellings[' '], "Ġ");
  EXPECT_EQ(definition.split_steps.size(), 3u);
  ASSERT_EQ(definition.merges.size(), 2u);
  EXPECT_EQ(definition.merges[1].left, 256);
  EXPECT_EQ(definition.merges[1].right, 'l');
  EXPECT_EQ(definition.merges[1].merged, 257);
}

TEST(TokenizerFile, ReadsMergesAsTextsAndAsPairs) {
  Json json = small_tokenizer_json();
  json["model"]["merges"] = {Json{"h", "e"}, "he l"};
  const TokenizerDefinition definition = parse_tokenizer_file(json.dump(), "some.json");
  EXPECT_EQ(definition.merges[0].merged, 256);
  EXPECT_EQ(definition.merges[1].merged, 257);
}

TEST(TokenizerFile, ByteLevelWithRegexBringsItsPattern) {
  Json json = small_tokenizer_json();
  json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  EXPECT_EQ(parse_tokenizer_file(json.dump(), "some.json").split_steps.size(), 1u);
}

TEST(TokenizerFile, RefusesWhatIsNotJson) {
  EXPECT_THAT(parse_error(""), HasSubstr("some.json: not valid JSON"));
  EXPECT_THAT(parse_error("{\"model\": "), HasSubstr("byte"));
  EXPECT_THAT(parse_error("{\"a\": \"\xFF\"}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(parse_error("[]"), HasSubstr("object"));
  EXPECT_THAT(parse_error(std::string(100'000, '[')), HasSubstr("not valid JSON"));
  EXPECT_THAT(parse_error("{}"), HasSubstr("pre_tokenizer"));
}

TEST(TokenizerFile, RefusesATruncatedFileWhereverItIsCut) {
  const std::string text = small_tokenizer_json().dump();
  for (std::size_t length = 0; length < text.size(); length += 97) {
    EXPECT_THAT(parse_error(text.substr(0, length)), HasSubstr("not valid JSON"));
  }
}

TEST(TokenizerFile, RefusesSettingsItDoesNotFollow) {
  expect_refused("/truncation", {{"max_length", 5}}, "truncation");
  expect_refused("/padding", {{"pad_id", 0}}, "padding");
  expect_refused("/normalizer", {{"type", "NFC"}}, "normalizer.type: 'NFC'");
  expect_refused("/normalizer", "NFC", "normalizer");
  expect_refused("/normalizer/normalizers", {{{"type", "NFC"}}}, "normalizer.normalizers");
  expect_refused("/decoder", nullptr, "decoder");
  expect_refused("/decoder/type", "WordPiece", "decoder.type: 'WordPiece'");
  expect_refused("/post_processor", {{"type", "BertProcessing"}}, "'BertProcessing'");
  expect_refused("/post_processor", {{"type", "TemplateProcessing"}, {"single", Json::array()}},
                 "post_processor.single");
  expect_refused("/post_processor", 7, "post_processor");
}

TEST(TokenizerFile, RefusesUnknownPreTokenizers) {
  expect_refused("/pre_tokenizer", nullptr, "pre_tokenizer");
  expect_refused("/pre_tokenizer", {{"type", "Whitespace"}}, "'Whitespace'");
  expect_refused("/pre_tokenizer/pretokenizers", Json::array(), "ByteLevel");
  expect_refused("/pre_tokenizer/pretokenizers/0", {{"type", "Digits"}},
                 "pre_tokenizer.pretokenizers[0].type: 'Digits'");
  expect_refused("/pre_tokenizer/pretokenizers/1", "x", "pretokenizers[1]");
  expect_refused("/pre_tokenizer/pretokenizers/0/behavior", "Removed", "'Removed'");
  expect_refused("/pre_tokenizer/pretokenizers/0/invert", true, "invert");
  expect_refused("/pre_tokenizer/pretokenizers/0/pattern", Json::object(), "pattern.Regex");
  expect_refused("/pre_tokenizer/pretokenizers/0/pattern/Regex", "", "empty pattern");
  expect_refused("/pre_tokenizer/pretokenizers/3/add_prefix_space", true, "add_prefix_space");
  expect_refused("/pre_tokenizer/pretokenizers/3/use_regex", "yes", "use_regex");
  Json json = small_tokenizer_json();
  json["pre_tokenizer"]["pretokenizers"].erase(3);
  EXPECT_THAT(parse_error(json.dump()), HasSubstr("ByteLevel"));
  json = small_tokenizer_json();
  std::swap(json["pre_tokenizer"]["pretokenizers"][2], json["pre_tokenizer"]["pretokenizers"][3]);
  EXPECT_THAT(parse_error(json.dump()), HasSubstr("ByteLevel"));
}

TEST(TokenizerFile, RefusesOtherModels) {
  expect_refused("/model", nullptr, "model");
  expect_refused("/model/type", "Unigram", "'Unigram'");
  expect_refused("/model/dropout", 0.1, "dropout");
  expect_refused("/model/byte_fallback", true, "byte_fallback");
  expect_refused("/model/continuing_subword_prefix", "##", "continuing_subword_prefix");
  expect_refused("/model/end_of_word_suffix", "</w>", "end_of_word_suffix");
  expect_refused("/model/ignore_merges", 1, "ignore_merges");
}

TEST(TokenizerFile, RefusesABrokenVocabulary) {
  expect_refused("/model/vocab", Json::array(), "model.vocab");
  expect_refused("/model/vocab/hel", 256, "id 256 is given to both");
  expect_refused("/model/vocab/hel", -1, "id -1");
  expect_refused("/model/vocab/hel", 1.5, "integer");
  expect_refused("/model/vocab/hel", 5000, "dense");
  expect_refused("/model/vocab/hel", std::uint64_t{1} << 63, "dense");
  expect_refused("/model/vocab/", 259, "empty token");
  Json json = small_tokenizer_json();
  json["model"]["vocab"].erase("Ġ");
  json["model"]["vocab"]["xx"] = 32;
  EXPECT_THAT(parse_error(json.dump()), HasSubstr("no token for byte 32"));
}

TEST(TokenizerFile, RefusesBrokenMerges) {
  expect_refused("/model/merges", nullptr, "model.merges");
  expect_refused("/model/merges/1", "he xyz", "model.merges[1]: 'xyz' is not in model.vocab");
  expect_refused("/model/merges/1", "l l", "'ll' is not in model.vocab");
  expect_refused("/model/merges/1", "hel", "merges[1]");
  expect_refused("/model/merges/1", "h e l", "merges[1]");
  expect_refused("/model/merges/1", 7, "merges[1]");
  expect_refused("/model/merges/1", {"h"}, "merges[1]");
  expect_refused("/model/merges/1", "h e", "twice");
}

TEST(TokenizerFile, RefusesBrokenAddedTokens) {
  expect_refused("/added_tokens", Json::object(), "added_tokens");
  expect_refused("/added_tokens/0", "x", "added_tokens[0]");
  expect_refused("/added_tokens/0/content", "", "added_tokens[0].content");
  expect_refused("/added_tokens/0/content", nullptr, "added_tokens[0].content");
  expect_refused("/added_tokens/0/id", "1", "added_tokens[0].id");
  expect_refused("/added_tokens/0/id", 257, "id 257 is given to both 'hel' and '<end>'");
  expect_refused("/added_tokens/0/id", 300, "dense");
  expect_refused("/added_tokens/0/content", "he", "added_tokens[0].id");
  expect_refused("/added_tokens/0/single_word", true, "single_word");
  expect_refused("/added_tokens/0/lstrip", true, "lstrip");
  expect_refused("/added_tokens/0/rstrip", true, "rstrip");
  expect_refused("/added_tokens/0/special", "yes", "special");
  Json json = small_tokenizer_json();
  json["added_tokens"].push_back(json["added_tokens"][0]);
  json["added_tokens"][1]["id"] = 259;
  EXPECT_THAT(parse_error(json.dump()), HasSubstr("twice"));
}

TEST(TokenizerConfig, ReadsTokensAsTextAndAsObject) {
  const TokenizerConfig config = parse_tokenizer_config(
      R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "add_bos_token": true})", "c.json");
  EXPECT_EQ(config.bos_token, "<s>");
  EXPECT_EQ(config.eos_token, "</s>");
  EXPECT_EQ(config.pad_token, std::nullopt);
  EXPECT_TRUE(config.add_bos_token);
}

TEST(TokenizerConfig, RefusesWhatItDoesNotFollow) {
  const auto message = [](const char* json) {
    return error_message(ErrorKind::kCheckpoint, [&] { parse_tokenizer_config(json, "c.json"); });
  };
  EXPECT_THAT(message("{"), HasSubstr("c.json"));
  EXPECT_THAT(message(R"({"add_eos_token": true})"), HasSubstr("c.json: add_eos_token"));
  EXPECT_THAT(message(R"({"add_bos_token": 1})"), HasSubstr("c.json: add_bos_token"));
  EXPECT_THAT(message(R"({"bos_token": 1})"), HasSubstr("c.json: bos_token"));
  EXPECT_THAT(message(R"({"bos_token": {}})"), HasSubstr("bos_token.content"));
  EXPECT_THAT(error_message(ErrorKind::kCheckpoint,
                            [] {
                              Tokenizer::from_json(small_tokenizer_json().dump(), "some.json",
                                                   TokenizerCompatibility::kNative,
                                                   R"({"eos_token": "nowhere"})");
                            }),
              HasSubstr("eos_token 'nowhere'"));
}

}  // namespace
}  // namespace deepinfer
