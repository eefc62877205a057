#include "token_ids.h"

#include <charconv>

#include "base/error.h"
#include "json_input.h"

namespace deepinfer::cli {
namespace {

bool is_id(const Json& value) {
  // Unsigned values are compared as such: the library would compare them as signed ones.
  if (value.is_number_unsigned()) return value.get<std::uint64_t>() <= INT32_MAX;
  if (!value.is_number_integer()) return false;
  const auto number = value.get<std::int64_t>();
  return number >= INT32_MIN && number <= INT32_MAX;
}

}  // namespace

std::vector<TokenId> ids_of(const Json& array, const std::string& origin) {
  std::vector<TokenId> ids;
  for (const auto& value : array) {
    if (!is_id(value)) {
      fail_argument(origin + ": found " + dump(value) + ", expected a token id");
    }
    ids.push_back(value.get<TokenId>());
  }
  return ids;
}

std::vector<TokenId> parse_ids(std::string_view text, const std::string& origin) {
  std::vector<TokenId> ids;
  if (text.find_first_of("[]") != std::string_view::npos) {
    for (const auto& sequence : parse_id_sequences(text, origin)) {
      ids.insert(ids.end(), sequence.begin(), sequence.end());
    }
    return ids;
  }
  constexpr std::string_view kSeparators = " \t\r\n,";
  while (true) {
    const std::size_t begin = text.find_first_not_of(kSeparators);
    if (begin == std::string_view::npos) return ids;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(kSeparators));
    TokenId id = 0;
    const auto result = std::from_chars(word.data(), word.data() + word.size(), id);
    if (result.ec != std::errc{} || result.ptr != word.data() + word.size()) {
      fail_argument(origin + ": found '" + std::string(word.substr(0, 40)) +
                    "', expected token ids");
    }
    ids.push_back(id);
    text.remove_prefix(word.size());
  }
}

std::vector<std::vector<TokenId>> parse_id_sequences(std::string_view text,
                                                     const std::string& origin) {
  std::vector<std::vector<TokenId>> sequences;
  const Json whole = parse_json(text);
  if (whole.is_array()) {
    if (whole.empty() || !whole.front().is_array()) return {ids_of(whole, origin)};
    for (const auto& array : whole) {
      if (!array.is_array()) fail_argument(origin + ": expected arrays of token ids only");
      sequences.push_back(ids_of(array, origin));
    }
    return sequences;
  }
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const Json array = parse_json(line);
    const std::string place = origin + ":" + std::to_string(number);
    if (!array.is_array()) fail_argument(place + ": expected a JSON array of token ids");
    sequences.push_back(ids_of(array, place));
  }
  if (sequences.empty()) fail_argument(origin + ": expected a JSON array of token ids");
  return sequences;
}

std::string join_ids(std::span<const TokenId> ids) {
  std::string text;
  for (const TokenId id : ids) {
    if (!text.empty()) text += ' ';
    text += std::to_string(id);
  }
  return text;
}

}  // namespace deepinfer::cli
