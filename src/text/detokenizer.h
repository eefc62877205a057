#pragma once

#include <string>

#include "base/ids.h"
#include "text/tokenizer.h"

namespace deepinfer {

/// Turns a stream of ids into a stream of text of whole characters. The pieces joined, finish()
/// included, equal Tokenizer::decode of all ids pushed. Made for the generated ids alone: text of
/// the prompt never comes out, even when the prompt ended inside a character.
class Detokenizer {
 public:
  /// `tokenizer` must outlive the detokenizer.
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = false)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  /// The text that `id` completes; perhaps empty. Bytes that may still become a character are held
  /// back, bytes that no longer can become U+FFFD.
  /// Throws Error(kInvalidArgument) on an id that the tokenizer doesn't know; the state is as
  /// before.
  std::string push(TokenId id);

  /// Flushes what is held back as U+FFFD. The detokenizer is then as new.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string pending_;  // at most three bytes: the beginning of a character
};

}  // namespace deepinfer
