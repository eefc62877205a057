#include "text/utf8.h"

#include <cstring>

#include "base/error.h"

namespace deepinfer {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Sequence {
  std::size_t length;  // of the character, or of the maximal part that could begin one
  bool valid;
  bool truncated;  // cut off by the end of the text while still a possible beginning
};

// Looks at the character that starts at `text` (not empty, not ASCII). The allowed second bytes
// keep overlong forms, surrogates and values above U+10FFFF out.
Sequence next_sequence(std::string_view text) {
  const auto byte = [text](std::size_t index) { return static_cast<std::uint8_t>(text[index]); };
  const std::uint8_t first = byte(0);
  std::size_t length = 0;
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return {1, false, false};
  }
  for (std::size_t index = 1; index < length; ++index) {
    if (index == text.size()) return {index, false, true};
    if (byte(index) < low || byte(index) > high) return {index, false, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true, false};
}

std::size_t ascii_prefix(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080u;
  std::size_t offset = 0;
  for (; offset + 8 <= text.size(); offset += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + offset, 8);
    if ((word & kHighBits) != 0) break;
  }
  while (offset < text.size() && static_cast<std::uint8_t>(text[offset]) < 0x80) ++offset;
  return offset;
}

}  // namespace

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t offset = 0;
  while (true) {
    offset += ascii_prefix(text.substr(offset));
    if (offset == text.size()) return offset;
    // Runs of non-ASCII text are common: stay here until ASCII comes again.
    do {
      const Sequence sequence = next_sequence(text.substr(offset));
      if (!sequence.valid) return offset;
      offset += sequence.length;
    } while (offset < text.size() && static_cast<std::uint8_t>(text[offset]) >= 0x80);
  }
}

void require_valid_utf8(std::string_view text, std::string_view what) {
  const std::size_t offset = valid_utf8_prefix(text);
  if (offset != text.size()) {
    fail_argument(std::string(what) + " is not valid UTF-8 at byte " + std::to_string(offset));
  }
}

std::size_t append_utf8_lossy(std::string_view bytes, bool hold_back, std::string& text) {
  while (!bytes.empty()) {
    const std::size_t valid = valid_utf8_prefix(bytes);
    text.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    const Sequence sequence = next_sequence(bytes);
    if (sequence.truncated && hold_back) return bytes.size();
    text.append(kReplacement);
    bytes.remove_prefix(sequence.length);
  }
  return 0;
}

void append_code_point(char32_t code_point, std::string& text) {
  const auto continuation = [code_point](int shift) {
    return static_cast<char>(0x80 | (code_point >> shift & 0x3F));
  };
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    text += static_cast<char>(0xC0 | code_point >> 6);
    text += continuation(0);
  } else if (code_point < 0x10000) {
    text += static_cast<char>(0xE0 | code_point >> 12);
    text += continuation(6);
    text += continuation(0);
  } else {
    text += static_cast<char>(0xF0 | code_point >> 18);
    text += continuation(12);
    text += continuation(6);
    text += continuation(0);
  }
}

}  // namespace deepinfer
