#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace deepinfer {

/// Nesting beyond this is refused by parse_json_value: printing a value recurses.
inline constexpr std::size_t kMaxJsonDepth = 256;

/// The value as Python's `json.dumps(value, ensure_ascii=False)` prints it: `", "` and `": "`,
/// keys in their order, floats as `repr` spells them, NaN and Infinity by name, integers of any
/// size that parse_json_value read with all their digits. The chat format writes all JSON like this
/// (interface.md §7.3). Bytes of strings are copied, never checked.
std::string python_json(const nlohmann::ordered_json& value);

/// The same with the separators `,` and `:`.
std::string compact_json(const nlohmann::ordered_json& value);

/// Python's `repr(value)`: the shortest digits that read back as the same number, with an exponent
/// below 1e-4 and from 1e16 on.
std::string python_float(double value);

/// Appends `text` escaped for a JSON string, without the quotes.
void append_json_escaped(std::string_view text, std::string& out);

/// `text` as a JSON string, quotes included.
std::string json_string(std::string_view text);

/// The deepest nesting of arrays and objects in `text`, which need not be valid JSON.
std::size_t json_depth(std::string_view text);

/// Parses one JSON value with nothing after it. Empty when `text` is no JSON, isn't valid UTF-8 or
/// is nested deeper than kMaxJsonDepth; `problem`, if given, then says why and where. An integer
/// that fits no 64 bits becomes a value that is no number for the library (a double would lose
/// digits) and that only python_json and compact_json understand.
std::optional<nlohmann::ordered_json> parse_json_value(std::string_view text,
                                                       std::string* problem = nullptr);

}  // namespace deepinfer
