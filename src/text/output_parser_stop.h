#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer {

/// Finds the first of several stop sequences in a text that comes in pieces, and holds back what
/// may still become one. "First" is the one that ends first; of several that end together the
/// longest counts. Linear in the text for a given number of sequences.
class StopMatcher {
 public:
  /// Empty sequences are left out.
  explicit StopMatcher(std::vector<std::string> sequences);

  /// Appends to `out` the text that is certainly before any stop sequence. After a match, the rest
  /// is dropped.
  void push(std::string_view text, std::string& out);

  /// The text is over: releases what was held back.
  void flush(std::string& out);

  bool matched() const { return matched_; }

 private:
  /// The automaton of Knuth, Morris and Pratt for one sequence.
  struct Pattern {
    std::string text;
    std::vector<std::size_t> fallback;  ///< longest proper border of each prefix
    std::size_t state = 0;              ///< bytes of `text` that end the input so far

    void advance(char byte);
  };

  std::vector<Pattern> patterns_;
  std::string held_;
  bool matched_ = false;
};

}  // namespace deepinfer
