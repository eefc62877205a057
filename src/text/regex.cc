#include "text/regex.h"

#include <array>
#include <cstdint>

#include "base/error.h"
#include "text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace deepinfer {
namespace {

std::string error_text(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

std::string escape_literal(std::string_view text) {
  std::string pattern;
  for (const char character : text) {
    const auto code = static_cast<std::uint8_t>(character);
    const bool is_word = code >= 0x80 || (code >= '0' && code <= '9') ||
                         (code >= 'A' && code <= 'Z') || (code >= 'a' && code <= 'z');
    if (!is_word) pattern += '\\';
    pattern += character;
  }
  return pattern;
}

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  std::string description;  // for messages

  ~Code() { pcre2_code_free(code); }
};

struct Regex::Scratch::Data {
  pcre2_match_data* data = nullptr;

  ~Data() { pcre2_match_data_free(data); }
};

Regex::Scratch::Scratch(const Regex& regex) : data_(std::make_unique<Data>()) {
  data_->data = pcre2_match_data_create_from_pattern(regex.code_->code, nullptr);
  if (data_->data == nullptr) fail(ErrorKind::kOutOfMemory, "no memory for a pattern search");
}
Regex::Scratch::~Scratch() = default;
Regex::Scratch::Scratch(Scratch&&) noexcept = default;
Regex::Scratch& Regex::Scratch::operator=(Scratch&&) noexcept = default;

Regex::Regex(std::string_view pattern, bool is_literal, const std::string& origin)
    : code_(std::make_unique<Code>()) {
  require_valid_utf8(pattern, origin);
  const std::string translated =
      is_literal ? escape_literal(pattern) : translate_pattern(pattern, origin);
  code_->description = origin + ": pattern '" + std::string(pattern) + "'";
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error,
                              &error_offset, nullptr);
  if (code_->code == nullptr) {
    fail_checkpoint(code_->description + " is malformed: " + error_text(error));
  }
  std::uint32_t matches_empty = 0;
  pcre2_pattern_info(code_->code, PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty != 0) fail_checkpoint(code_->description + " can match the empty text");
  // Without JIT support on this machine the interpreter gives the same matches, slower.
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);
}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

std::optional<Regex::Match> Regex::find(std::string_view subject, std::size_t offset,
                                        Scratch& scratch) const {
  pcre2_match_data* data = scratch.data_->data;
  const auto search = [&](std::uint32_t options) {
    return pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(),
                       offset, options | PCRE2_NO_UTF_CHECK, data, nullptr);
  };
  int result = search(0);
  // The JIT code has a small fixed stack, the interpreter takes memory as it needs.
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = search(PCRE2_NO_JIT);
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0) fail_checkpoint(code_->description + " failed: " + error_text(result));
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data);
  return Match{bounds[0], bounds[1]};
}

}  // namespace deepinfer
