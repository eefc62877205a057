#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

// Token ids as text.

namespace deepinfer::cli {

/// Ids separated by blanks or commas, with or without brackets around them. Throws
/// Error(kInvalidArgument) naming `origin` and the word that is no id; any int32 passes, whatever
/// the vocabulary.
std::vector<TokenId> parse_ids(std::string_view text, const std::string& origin);

/// A JSON array of ids, an array of such arrays, or one array a line: sequences in order. Throws as
/// parse_ids.
std::vector<std::vector<TokenId>> parse_id_sequences(std::string_view text,
                                                     const std::string& origin);

/// Separated by single blanks.
std::string join_ids(std::span<const TokenId> ids);

}  // namespace deepinfer::cli
