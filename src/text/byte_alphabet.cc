#include "text/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "text/utf8.h"

namespace deepinfer {
namespace {

constexpr char32_t kFirstShifted = 0x100;

constexpr bool shows_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
         (byte >= 0xAE && byte <= 0xFF);
}

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<std::int16_t, 0x144> byte{};  // by character, -1 outside the alphabet

  constexpr Alphabet() {
    for (auto& entry : byte) entry = -1;
    char32_t shifted = kFirstShifted;
    for (int value = 0; value < 256; ++value) {
      character[value] = shows_itself(value) ? static_cast<char32_t>(value) : shifted++;
      byte[character[value]] = static_cast<std::int16_t>(value);
    }
  }
};

constexpr Alphabet kAlphabet;

}  // namespace

std::string to_byte_alphabet(std::string_view bytes) {
  std::string spelling;
  for (const char byte : bytes) {
    append_code_point(kAlphabet.character[static_cast<std::uint8_t>(byte)], spelling);
  }
  return spelling;
}

std::string from_byte_alphabet(std::string_view spelling) {
  std::string bytes;
  for (std::size_t offset = 0; offset < spelling.size();) {
    const DecodedCodePoint code_point = decode_code_point(spelling.data() + offset);
    if (code_point.value >= kAlphabet.byte.size() || kAlphabet.byte[code_point.value] < 0) {
      return std::string(spelling);
    }
    bytes += static_cast<char>(kAlphabet.byte[code_point.value]);
    offset += code_point.length;
  }
  return bytes;
}

}  // namespace deepinfer
