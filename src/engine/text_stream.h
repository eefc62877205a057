#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace deepinfer {

/// The text of one generated sequence as it grows, with and without special tokens, cut at the
/// first stop string. Text that may still become part of a stop string is held back, so what was
/// handed out is never taken back.
class TextStream {
 public:
  /// What became certain with one token.
  struct Delta {
    std::string text;
    std::string text_skip_special;
  };

  /// `tokenizer` must outlive the stream. Stop strings are matched on the text that keeps special
  /// tokens.
  TextStream(const Tokenizer& tokenizer, std::vector<std::string> stop);

  /// Adds a generated token. `match_stop` false: stop strings don't end the text here (min_tokens).
  /// An id that the tokenizer doesn't know (padding of the vocabulary) has no text.
  Delta push(TokenId token, bool match_stop = true);

  /// Everything held back, an unfinished character as U+FFFD. Call once, at the end.
  Delta finish();

  /// The stop string that was found, or nullptr. Nothing may be pushed after it.
  const std::string* match() const { return match_ < 0 ? nullptr : &stop_[std::size_t(match_)]; }

  /// All that was handed out.
  std::string text() const { return kept_.substr(0, released_); }
  std::string text_skip_special() const { return plain_.substr(0, plain_released_); }

 private:
  using Range = std::pair<std::size_t, std::size_t>;

  bool find_stop();
  std::size_t held_back() const;
  /// Bytes of kept_[begin, end) that don't belong to special tokens.
  std::size_t plain_bytes(std::size_t begin, std::size_t end) const;
  Delta release(std::size_t end);

  const Tokenizer* tokenizer_;
  std::vector<std::string> stop_;
  Detokenizer kept_detokenizer_;
  Detokenizer plain_detokenizer_;
  std::string kept_;   ///< with special tokens, held back text included
  std::string plain_;  ///< without
  std::size_t released_ = 0;
  std::size_t plain_released_ = 0;
  std::vector<Range> special_;  ///< where special tokens lie in kept_
  int match_ = -1;
};

}  // namespace deepinfer
