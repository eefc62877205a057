#include "text/engram_vocabulary.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "text/utf8.h"

namespace deepinfer {
namespace {

struct DroppedRange {
  char32_t first;
  char32_t last;
};
struct Replacement {
  char32_t code_point;
  const char* utf8;
};

// Both ascending: the generated lists are in order.
#define DROPPED(first, last) {first, last},
#define BECOMES(code_point, utf8)
constexpr DroppedRange kDropped[] = {
#include "text/engram_normalizer.inc"
};
#undef DROPPED
#undef BECOMES

#define DROPPED(first, last)
#define BECOMES(code_point, utf8) {code_point, utf8},
constexpr Replacement kReplacements[] = {
#include "text/engram_normalizer.inc"
};
#undef DROPPED
#undef BECOMES

constexpr char32_t kFirstHangul = 0xAC00;
constexpr char32_t kLastHangul = 0xD7A3;

void append_hangul(char32_t syllable, std::string& text) {
  const char32_t index = syllable - kFirstHangul;
  append_code_point(0x1100 + index / 588, text);
  append_code_point(0x1161 + index % 588 / 28, text);
  if (index % 28 != 0) append_code_point(0x11A7 + index % 28, text);
}

// NFKC, NFD, dropping of marks and lowercase of one code point. The chain on a whole string gives
// the same as its code points one by one.
void append_normalized(char32_t code_point, std::string& text) {
  if (code_point >= kFirstHangul && code_point <= kLastHangul) {
    append_hangul(code_point, text);
    return;
  }
  const auto* const dropped = std::lower_bound(
      std::begin(kDropped), std::end(kDropped), code_point,
      [](const DroppedRange& range, char32_t value) { return range.last < value; });
  if (dropped != std::end(kDropped) && dropped->first <= code_point) return;
  const auto* const replacement = std::lower_bound(
      std::begin(kReplacements), std::end(kReplacements), code_point,
      [](const Replacement& entry, char32_t value) { return entry.code_point < value; });
  if (replacement != std::end(kReplacements) && replacement->code_point == code_point) {
    text += replacement->utf8;
  } else {
    append_code_point(code_point, text);
  }
}

// Unicode's White_Space.
bool is_white_space(char32_t value) {
  return (value >= 0x9 && value <= 0xD) || value == 0x20 || value == 0x85 || value == 0xA0 ||
         value == 0x1680 || (value >= 0x2000 && value <= 0x200A) || value == 0x2028 ||
         value == 0x2029 || value == 0x202F || value == 0x205F || value == 0x3000;
}

std::string join_blanks(std::string_view text) {
  std::string joined;
  bool in_run = false;
  for (const char character : text) {
    const bool blank =
        character == ' ' || character == '\t' || character == '\r' || character == '\n';
    if (!blank) joined += character;
    if (blank && !in_run) joined += ' ';
    in_run = blank;
  }
  return joined;
}

std::string_view strip(std::string_view text) {
  std::size_t begin = text.size();
  std::size_t end = 0;
  for (std::size_t offset = 0; offset < text.size();) {
    const DecodedCodePoint code_point = decode_code_point(text.data() + offset);
    if (!is_white_space(code_point.value)) {
      begin = std::min(begin, offset);
      end = offset + code_point.length;
    }
    offset += code_point.length;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view{};
}

}  // namespace

std::string engram_normalize(std::string_view utf8) {
  std::string mapped;
  for (std::size_t offset = 0; offset < utf8.size();) {
    const DecodedCodePoint code_point = decode_code_point(utf8.data() + offset);
    append_normalized(code_point.value, mapped);
    offset += code_point.length;
  }
  std::string joined = join_blanks(mapped);
  if (joined == " ") return joined;
  // The chain keeps a lone blank as U+E000 and turns U+E000 back into a blank at its end, also one
  // that was in the text.
  std::string result;
  const std::string_view stripped = strip(joined);
  constexpr std::string_view kKeptBlank = "\xEE\x80\x80";
  for (std::size_t offset = 0; offset < stripped.size();) {
    if (stripped.substr(offset).starts_with(kKeptBlank)) {
      result += ' ';
      offset += kKeptBlank.size();
    } else {
      result += stripped[offset++];
    }
  }
  return result;
}

std::vector<std::int32_t> engram_token_map(const Tokenizer& tokenizer) {
  constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";
  std::unordered_map<std::string, std::int32_t> keys;
  std::vector<std::int32_t> map;
  map.reserve(static_cast<std::size_t>(tokenizer.vocab_size()));
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string text = tokenizer.decode({&id, 1});
    std::string key;
    if (text.find(kReplacementCharacter) != std::string::npos) {
      key = tokenizer.token_text(id);
    } else {
      key = engram_normalize(text);
      if (key.empty()) key = text;
    }
    map.push_back(
        keys.emplace(std::move(key), static_cast<std::int32_t>(keys.size())).first->second);
  }
  return map;
}

}  // namespace deepinfer
