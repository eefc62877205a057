#include "text/output_parser_stop.h"

#include <algorithm>
#include <utility>

namespace deepinfer {

StopMatcher::StopMatcher(std::vector<std::string> sequences) {
  for (std::string& sequence : sequences) {
    if (sequence.empty()) continue;
    Pattern pattern;
    pattern.fallback.assign(sequence.size(), 0);
    std::size_t border = 0;
    for (std::size_t i = 1; i < sequence.size(); ++i) {
      while (border > 0 && sequence[i] != sequence[border]) border = pattern.fallback[border - 1];
      if (sequence[i] == sequence[border]) ++border;
      pattern.fallback[i] = border;
    }
    pattern.text = std::move(sequence);
    patterns_.push_back(std::move(pattern));
  }
}

void StopMatcher::Pattern::advance(char byte) {
  while (state > 0 && byte != text[state]) state = fallback[state - 1];
  if (byte == text[state]) ++state;
}

void StopMatcher::push(std::string_view text, std::string& out) {
  if (matched_) return;
  if (patterns_.empty()) {
    out += text;
    return;
  }
  for (const char byte : text) {
    std::size_t possible = 0;
    std::size_t found = 0;
    for (Pattern& pattern : patterns_) {
      pattern.advance(byte);
      possible = std::max(possible, pattern.state);
      if (pattern.state == pattern.text.size()) found = std::max(found, pattern.state);
    }
    held_ += byte;
    if (found > 0) {
      out.append(held_, 0, held_.size() - found);
      held_.clear();
      matched_ = true;
      return;
    }
    if (held_.size() > possible) {
      const std::size_t certain = held_.size() - possible;
      out.append(held_, 0, certain);
      held_.erase(0, certain);
    }
  }
}

void StopMatcher::flush(std::string& out) {
  if (!matched_) out += held_;
  held_.clear();
}

}  // namespace deepinfer
