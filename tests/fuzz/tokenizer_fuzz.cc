// Feeds arbitrary bytes to the tokenizer's loader and encodes with whatever loads. Input that
// begins with `{` is a tokenizer.json, a zero byte, and a text; other input is a pattern of a
// pre-tokenizer, a zero byte, and a text. Anything but an Error or a faithful result is a bug.
//
// Seeds: tests/fuzz/corpus/tokenizer_fuzz.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void fuzz_tokenizer(std::string_view json, std::string_view text) {
  const auto tokenizer = deepinfer::Tokenizer::from_json(
      json, "fuzz.json", deepinfer::TokenizerCompatibility::kNative);
  tokenizer.decode(tokenizer.encode(text));
  // Without added tokens, whose spelling need not survive the byte alphabet, nothing is lost.
  require(tokenizer.decode(tokenizer.encode(text, {.parse_special = false})) == text);
}

void fuzz_pattern(std::string_view pattern, std::string_view text) {
  const deepinfer::PreTokenizer pre_tokenizer({{std::string(pattern), false}}, "fuzz.json");
  if (deepinfer::valid_utf8_prefix(text) != text.size()) return;
  std::string joined;
  for (const std::string_view piece : pre_tokenizer.split(text)) {
    require(!piece.empty());
    joined += piece;
  }
  require(joined == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t zero = input.find('\0');
  const std::string_view first = input.substr(0, zero);
  const std::string_view text =
      zero == std::string_view::npos ? std::string_view() : input.substr(zero + 1);
  try {
    first.starts_with('{') ? fuzz_tokenizer(first, text) : fuzz_pattern(first, text);
  } catch (const deepinfer::Error& error) {
    // A broken promise of our own code is never the input's fault.
    require(error.kind() != deepinfer::ErrorKind::kInternal);
  }
  return 0;
}
