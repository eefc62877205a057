#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace deepinfer {

/// The length in bytes of the longest valid UTF-8 prefix; text.size() when all of it is valid.
std::size_t valid_utf8_prefix(std::string_view text);

/// Throws Error(kInvalidArgument) naming `what` and the byte offset when `text` isn't valid UTF-8.
void require_valid_utf8(std::string_view text, std::string_view what);

/// Appends `bytes` to `text`, each maximal invalid sequence as one U+FFFD (the practice of the
/// Unicode standard, section 3.9). With `hold_back` a beginning of a character at the very end is
/// not appended; the return value is the count of such bytes (0 to 3).
std::size_t append_utf8_lossy(std::string_view bytes, bool hold_back, std::string& text);

/// Appends the UTF-8 form of a scalar value.
void append_code_point(char32_t code_point, std::string& text);

struct DecodedCodePoint {
  char32_t value;
  std::size_t length;  ///< in bytes
};

/// The code point that starts at `text`, which must be valid UTF-8.
inline DecodedCodePoint decode_code_point(const char* text) {
  const auto byte = [text](int index) { return static_cast<std::uint8_t>(text[index]); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1F) << 6 | (byte(1) & 0x3Fu), 2};
  if (first < 0xF0) return {(first & 0x0F) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu), 3};
  return {
      (first & 0x07) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 | (byte(3) & 0x3Fu),
      4};
}

}  // namespace deepinfer
