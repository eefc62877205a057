#include "token_ids.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace deepinfer::cli {
namespace {

std::vector<TokenId> ids_of(const nlohmann::json& array, const std::string& origin) {
  std::vector<TokenId> ids;
  for (const auto& value : array) {
    if (!value.is_number_integer() || value < INT32_MIN || value > INT32_MAX) {
      fail_argument(origin + ": found " +
                    value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
                    ", expected a token id");
    }
    ids.push_back(value.get<TokenId>());
  }
  return ids;
}

}  // namespace

std::vector<TokenId> parse_ids(std::string_view text, const std::string& origin) {
  std::vector<TokenId> ids;
  constexpr std::string_view kSeparators = " \t\r\n,[]";
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
  const auto whole = nlohmann::json::parse(text, nullptr, false);
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
    const auto array = nlohmann::json::parse(line, nullptr, false);
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
