#include <array>
#include <cstdint>
#include <cstdio>

#include "base/error.h"
#include "text/regex.h"
#include "text/utf8.h"

namespace deepinfer {
namespace {

struct SupplementRange {
  char32_t first;
  char32_t last;
  char category;
};

constexpr SupplementRange kSupplement[] = {
#include "text/pcre2_supplement.inc"
};

// \s and its complement, written out: PCRE2's own \s holds U+180E too.
constexpr std::string_view kBlanks =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kNonBlanks =
    R"(\x{0}-\x{8}\x{E}-\x{1F}\x{21}-\x{84}\x{86}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF})"
    R"(\x{200B}-\x{2027}\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{D7FF})"
    R"(\x{E000}-\x{10FFFF})";

std::string category_members(char category) {
  std::string members = std::string("\\p{") + category + "}";
  for (const SupplementRange& range : kSupplement) {
    if (range.category != category) continue;
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(),
                  range.first == range.last ? "\\x{%X}" : "\\x{%X}-\\x{%X}",
                  static_cast<unsigned>(range.first), static_cast<unsigned>(range.last));
    members += text.data();
  }
  return members;
}

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& origin)
      : pattern_(pattern), origin_(origin) {}

  std::string translate() {
    while (!at_end()) {
      const char next = peek();
      if (next == '[') {
        character_class();
      } else if (next == '\\') {
        escape_outside_class();
      } else if (next == '(') {
        group();
      } else if (next == '*' || next == '+' || next == '?' || next == '{') {
        quantifier();
      } else if (next == '^' || next == '$' || next == '.' || next == '}' || next == ']') {
        refuse(std::string(1, next));
      } else {
        copy_character();
      }
    }
    return std::move(result_);
  }

 private:
  bool at_end() const { return position_ == pattern_.size(); }
  char peek() const { return pattern_[position_]; }
  bool looking_at(std::string_view text) const {
    return pattern_.substr(position_).starts_with(text);
  }

  [[noreturn]] void refuse(const std::string& what) const {
    fail_checkpoint(origin_ + ": regular expression syntax '" + what + "' at byte " +
                    std::to_string(position_) + " of '" + std::string(pattern_) +
                    "' is not supported");
  }

  void copy(std::size_t length) {
    result_ += pattern_.substr(position_, length);
    position_ += length;
  }
  void copy_character() { copy(decode_code_point(pattern_.data() + position_).length); }

  void group() {
    for (const std::string_view opening : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
      if (looking_at(opening)) return copy(opening.size());
    }
    if (looking_at("(?") || looking_at("(*")) refuse(std::string(pattern_.substr(position_, 3)));
    copy(1);
  }

  void quantifier() {
    if (peek() != '{') {
      copy(1);
      // Lazy and possessive mean the same in both engines here.
      if (!at_end() && (peek() == '?' || peek() == '+')) copy(1);
    } else {
      const std::size_t close = pattern_.find('}', position_);
      if (close == std::string_view::npos) refuse("{");
      if (!is_count(pattern_.substr(position_ + 1, close - position_ - 1))) {
        refuse(std::string(pattern_.substr(position_, close + 1 - position_)));
      }
      const bool is_range =
          pattern_.substr(position_, close - position_).find(',') != std::string_view::npos;
      copy(close + 1 - position_);
      // {n}? is a lazy count in one engine and an optional group in the other.
      if (!at_end() && peek() == '?' && is_range) copy(1);
    }
    // a{2}+ and a** repeat a repetition in Oniguruma only.
    if (!at_end() && (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{')) {
      refuse("repeated quantifier");
    }
  }

  // n or n, or n,m
  static bool is_count(std::string_view text) {
    std::size_t digits = 0;
    std::size_t commas = 0;
    for (const char character : text) {
      if (character == ',') {
        if (digits == 0 || ++commas > 1) return false;
      } else if (character >= '0' && character <= '9') {
        ++digits;
      } else {
        return false;
      }
    }
    return digits > 0;
  }

  void escape_outside_class() {
    const char kind = escaped_character();
    if (kind == 's' || kind == 'S') {
      result_ += kind == 's' ? "[" : "[^";
      result_ += kBlanks;
      result_ += "]";
      position_ += 2;
    } else if (kind == 'p' || kind == 'P') {
      result_ += kind == 'p' ? "[" : "[^";
      result_ += category_members(property());
      result_ += "]";
    } else {
      copy_escape();
    }
  }

  char escaped_character() const {
    if (position_ + 1 == pattern_.size()) refuse("\\");
    return pattern_[position_ + 1];
  }

  // An escape that means one character in both engines.
  void copy_escape() {
    const char kind = escaped_character();
    const auto code = static_cast<std::uint8_t>(kind);
    const bool is_letter_or_digit = (kind >= '0' && kind <= '9') || (kind >= 'A' && kind <= 'Z') ||
                                    (kind >= 'a' && kind <= 'z');
    const bool is_control = kind == 'n' || kind == 'r' || kind == 't' || kind == 'f';
    if (code >= 0x80 || (is_letter_or_digit && !is_control)) refuse({'\\', kind});
    copy(2);
  }

  char property() {
    const std::size_t close = pattern_.find('}', position_);
    const std::string_view text = close == std::string_view::npos
                                      ? pattern_.substr(position_)
                                      : pattern_.substr(position_, close + 1 - position_);
    constexpr std::string_view kCategories = "LNPSM";
    if (text.size() != 5 || text[2] != '{' || text[4] != '}' ||
        kCategories.find(text[3]) == std::string_view::npos) {
      refuse(std::string(text));
    }
    position_ = close + 1;
    return text[3];
  }

  void character_class() {
    const std::size_t begin = position_;
    copy(1);
    if (!at_end() && peek() == '^') copy(1);
    if (!at_end() && peek() == ']') refuse("[]");
    bool may_begin_range = false;
    while (true) {
      if (at_end()) {
        position_ = begin;
        refuse("[");
      }
      if (peek() == ']') break;
      if (peek() == '[' || looking_at("&&")) refuse(std::string(1, peek()));
      if (peek() == '-' && !looking_at("-]")) {
        if (!may_begin_range) refuse("-");
        copy(1);
        range_end();
        may_begin_range = false;
      } else {
        may_begin_range = class_item();
      }
    }
    copy(1);
  }

  // Returns whether the item is one character, which a range may begin with.
  bool class_item() {
    if (peek() != '\\') {
      copy_character();
      return true;
    }
    const char kind = escaped_character();
    if (kind == 's' || kind == 'S') {
      result_ += kind == 's' ? kBlanks : kNonBlanks;
      position_ += 2;
      return false;
    }
    if (kind == 'p') {
      result_ += category_members(property());
      return false;
    }
    copy_escape();
    return true;
  }

  void range_end() {
    if (at_end() || peek() == '[' || peek() == '-') refuse("-");
    if (!class_item()) refuse("-");
  }

  std::string_view pattern_;
  const std::string& origin_;
  std::size_t position_ = 0;
  std::string result_;
};

}  // namespace

std::string translate_pattern(std::string_view pattern, const std::string& origin) {
  return Translator(pattern, origin).translate();
}

}  // namespace deepinfer
