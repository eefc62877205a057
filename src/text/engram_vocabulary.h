#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace deepinfer {

/// The compressed id of every id 0..vocab_size()-1 (model.md §9.1): ids whose texts agree up to
/// case, accents, compatibility forms and blanks share one. Numbered 0, 1, 2... in order of first
/// appearance; the count of keys is the largest value plus one.
std::vector<std::int32_t> engram_token_map(const Tokenizer& tokenizer);

/// The normal form that decides which texts agree: NFKC, NFD, combining marks dropped, lowercase,
/// runs of blanks as one blank, ends stripped. Equal to the chain of the `tokenizers` library.
/// `utf8` must be valid UTF-8.
std::string engram_normalize(std::string_view utf8);

}  // namespace deepinfer
