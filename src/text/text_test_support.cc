#include "text/text_test_support.h"

#include <array>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace deepinfer::testing {
namespace {

struct CodePointRange {
  char32_t first;
  char32_t last;
};

// Where the rules of the pre-tokenizer change. Uniform choice among all code points would hardly
// ever put two of these side by side.
constexpr std::array<CodePointRange, 40> kPools = {{
    {'a', 'z'},       {'A', 'Z'},         {'0', '9'},         {' ', ' '},         {' ', ' '},
    {'\t', '\r'},     {'\n', '\n'},       {'\r', '\r'},       {'!', '/'},         {':', '@'},
    {'[', '`'},       {'{', '~'},         {0x0, 0x1F},        {0x7F, 0xA0},       {0xA1, 0x17F},
    {0x300, 0x36F},   {0x391, 0x3C9},     {0x5D0, 0x5EA},     {0x660, 0x669},     {0x900, 0x97F},
    {0xE00, 0xE5B},   {0x1100, 0x11FF},   {0x1680, 0x1680},   {0x180B, 0x180F},   {0x2000, 0x206F},
    {0x20A0, 0x20CF}, {0x2150, 0x218F},   {0x2460, 0x24FF},   {0x2600, 0x27BF},   {0x3000, 0x303F},
    {0x3040, 0x30FF}, {0x3100, 0x33FF},   {0x4E00, 0x9FFF},   {0xAC00, 0xD7A3},   {0xE000, 0xE00F},
    {0xFE00, 0xFF65}, {0x10D40, 0x10EFF}, {0x1F300, 0x1F64F}, {0x1E4D0, 0x1E6FF}, {0x0, 0x10FFFF},
}};

}  // namespace

std::string read_test_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("test data is missing: " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

nlohmann::json read_golden(const std::string& name) {
  return nlohmann::json::parse(read_test_file(std::filesystem::path(DEEPINFER_GOLDEN_DIR) / name));
}

const Tokenizer& official_tokenizer() {
  static const Tokenizer tokenizer =
      Tokenizer::load(DEEPINFER_OFFICIAL_TOKENIZER_DIR, TokenizerCompatibility::kNative);
  return tokenizer;
}

nlohmann::json small_tokenizer_json() {
  nlohmann::json vocab = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    vocab[to_byte_alphabet({&character, 1})] = byte;
  }
  vocab["he"] = 256;
  vocab["hel"] = 257;
  const auto split = [](const char* pattern) {
    return nlohmann::json{{"type", "Split"},
                          {"pattern", {{"Regex", pattern}}},
                          {"behavior", "Isolated"},
                          {"invert", false}};
  };
  return {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens",
       {{{"id", 258},
         {"content", "<end>"},
         {"single_word", false},
         {"lstrip", false},
         {"rstrip", false},
         {"normalized", false},
         {"special", true}}}},
      {"normalizer", {{"type", "Sequence"}, {"normalizers", nlohmann::json::array()}}},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {split("\\p{N}{1,3}"),
          split("[一-龥぀-ゟ゠-ヿ]+"),
          split("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
                "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"),
          {{"type", "ByteLevel"},
           {"add_prefix_space", false},
           {"trim_offsets", true},
           {"use_regex", false}}}}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", vocab},
        {"merges", {"h e", "he l"}}}},
  };
}

std::string random_text(std::mt19937& generator, int max_length) {
  std::string text;
  const int length = std::uniform_int_distribution<int>(0, max_length)(generator);
  while (static_cast<int>(text.size()) < length) {
    const CodePointRange& pool = kPools[generator() % kPools.size()];
    const char32_t value = pool.first + generator() % (pool.last - pool.first + 1);
    if (value >= 0xD800 && value <= 0xDFFF) continue;
    const int repeats = generator() % 4 == 0 ? 1 + static_cast<int>(generator() % 5) : 1;
    for (int repeat = 0; repeat < repeats; ++repeat) append_code_point(value, text);
  }
  return text;
}

std::string error_message(ErrorKind kind, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.kind()), to_string(kind)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "an error is expected";
  return {};
}

}  // namespace deepinfer::testing
