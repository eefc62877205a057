#include "text/pre_tokenizer.h"

#include <array>

namespace deepinfer {
namespace {

constexpr std::array<std::string_view, 3> kOfficialPatterns = {
    R"(\p{N}{1,3})",
    "[一-龥぀-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
    "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*"
    "|\\s*[\r\n]+"
    "|\\s+(?!\\S)"
    "|\\s+",
};

}  // namespace

bool is_official_split(const std::vector<SplitStep>& steps) {
  if (steps.size() != kOfficialPatterns.size()) return false;
  for (std::size_t index = 0; index < steps.size(); ++index) {
    if (steps[index].is_literal || steps[index].pattern != kOfficialPatterns[index]) return false;
  }
  return true;
}

PreTokenizer::PreTokenizer(const std::vector<SplitStep>& steps, const std::string& origin) {
  patterns_.reserve(steps.size());
  for (const SplitStep& step : steps) {
    patterns_.emplace_back(step.pattern, step.is_literal, origin + ": pre_tokenizer");
  }
}

std::vector<std::string_view> PreTokenizer::split(std::string_view text) const {
  std::vector<std::string_view> pieces;
  if (text.empty()) return pieces;
  pieces.push_back(text);
  std::vector<std::string_view> finer;
  for (const Regex& pattern : patterns_) {
    Regex::Scratch scratch(pattern);
    finer.clear();
    finer.reserve(pieces.size() * 2);
    for (const std::string_view piece : pieces) {
      std::size_t done = 0;
      while (const auto match = pattern.find(piece, done, scratch)) {
        if (match->begin > done) finer.push_back(piece.substr(done, match->begin - done));
        finer.push_back(piece.substr(match->begin, match->end - match->begin));
        done = match->end;
        if (done == piece.size()) break;
      }
      if (done < piece.size()) finer.push_back(piece.substr(done));
    }
    pieces.swap(finer);
  }
  return pieces;
}

}  // namespace deepinfer
