#pragma once

#include <string>
#include <string_view>

namespace deepinfer {

/// The byte-level alphabet: every byte is shown as one printable character, itself where that is
/// printable (`a`), else a character from U+0100 on in byte order (`Ġ` for a blank). Vocabulary
/// spellings in tokenizer.json are written in it.
std::string to_byte_alphabet(std::string_view bytes);

/// The inverse. A spelling with any character outside the alphabet stands for itself, as in the
/// `tokenizers` library. `spelling` must be valid UTF-8.
std::string from_byte_alphabet(std::string_view spelling);

}  // namespace deepinfer
