#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "json_output.h"

// Token ids as text.

namespace deepinfer::cli {

/// The elements of a JSON array. Throws Error(kInvalidArgument) naming `origin` and the element
/// that is no id; any int32 passes, whatever the vocabulary.
std::vector<TokenId> ids_of(const Json& array, const std::string& origin);

/// Ids separated by blanks or commas, or the forms of parse_id_sequences one after the other.
/// Throws as ids_of.
std::vector<TokenId> parse_ids(std::string_view text, const std::string& origin);

/// A JSON array of ids, an array of such arrays, or one array a line: sequences in order. Throws as
/// ids_of.
std::vector<std::vector<TokenId>> parse_id_sequences(std::string_view text,
                                                     const std::string& origin);

/// Separated by single blanks.
std::string join_ids(std::span<const TokenId> ids);

}  // namespace deepinfer::cli
