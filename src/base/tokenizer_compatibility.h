#pragma once

namespace deepinfer {

/// `tokenizer_compatibility` of a checkpoint: how its tokenizer files are read.
enum class TokenizerCompatibility {
  /// BOS, EOS and PAD must be `<｜begin▁of▁sentence｜>` = 0, `<｜end▁of▁sentence｜>` = 1 and
  /// `<｜▁pad▁｜>` = 2; plain text gets a BOS, and the spellings `<|place_holder_mm_span_0000|>` ..
  /// `0020` stand for the ids that follow the vocabulary.
  kRelease,
  /// The files as they are.
  kNative,
};

}  // namespace deepinfer
