#include "text/official_scanner.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace deepinfer {
namespace {

enum CharacterClass : std::uint8_t { kLetter, kNumber, kPunctuation, kSymbol, kMark, kSpace };

struct ClassRange {
  char32_t first;
  char32_t last;
  CharacterClass kind;
};

constexpr ClassRange kClassRanges[] = {
#include "text/character_classes.inc"
};

// The second official step: Han, Hiragana, Katakana.
constexpr std::pair<char32_t, char32_t> kHanKanaRanges[] = {
    {0x4E00, 0x9FA5}, {0x3040, 0x309F}, {0x30A0, 0x30FF}};

constexpr std::size_t kCodePoints = 0x110000;

ScanClass scan_class(CharacterClass kind) {
  switch (kind) {
    case kLetter:
      return ScanClass::kLetter;
    case kNumber:
      return ScanClass::kNumber;
    case kPunctuation:
    case kSymbol:
      return ScanClass::kSymbol;
    case kMark:
      return ScanClass::kMark;
    case kSpace:
      return ScanClass::kBlank;
  }
  return ScanClass::kOther;
}

ScanClass han_kana_class(ScanClass kind) {
  switch (kind) {
    case ScanClass::kLetter:
    case ScanClass::kMark:
      return ScanClass::kHanKana;
    case ScanClass::kSymbol:
      return ScanClass::kHanKanaSymbol;
    default:
      return ScanClass::kHanKanaOther;
  }
}

// One byte for each code point: a lookup is a single load, and text touches few of its lines.
std::vector<ScanClass> make_scan_classes() {
  std::vector<ScanClass> classes(kCodePoints, ScanClass::kOther);
  const auto fill = [&](char32_t first, char32_t last, ScanClass kind) {
    std::fill(classes.begin() + first, classes.begin() + last + 1, kind);
  };
  for (const ClassRange& range : kClassRanges) {
    fill(range.first, range.last, scan_class(range.kind));
  }
  fill(U'\n', U'\n', ScanClass::kNewline);
  fill(U'\r', U'\r', ScanClass::kNewline);
  for (const auto& [first, last] : kHanKanaRanges) {
    for (char32_t value = first; value <= last; ++value) {
      classes[value] = han_kana_class(classes[value]);
    }
  }
  return classes;
}

}  // namespace

const ScanClass* scan_classes() {
  static const std::vector<ScanClass> classes = make_scan_classes();
  return classes.data();
}

}  // namespace deepinfer
