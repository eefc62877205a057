#include "text/python_json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace deepinfer {
namespace {

struct Separators {
  const char* member;
  const char* key;
};

void append_value(const nlohmann::ordered_json& value, const Separators& separators,
                  std::string& out) {
  using Type = nlohmann::ordered_json::value_t;
  switch (value.type()) {
    case Type::object: {
      out += '{';
      const char* separator = "";
      for (const auto& [key, member] : value.items()) {
        out += separator;
        out += '"';
        append_json_escaped(key, out);
        out += '"';
        out += separators.key;
        append_value(member, separators, out);
        separator = separators.member;
      }
      out += '}';
      return;
    }
    case Type::array: {
      out += '[';
      const char* separator = "";
      for (const auto& element : value) {
        out += separator;
        append_value(element, separators, out);
        separator = separators.member;
      }
      out += ']';
      return;
    }
    case Type::string:
      out += json_string(value.get_ref<const std::string&>());
      return;
    case Type::boolean:
      out += value.get<bool>() ? "true" : "false";
      return;
    case Type::number_integer:
      out += std::to_string(value.get<std::int64_t>());
      return;
    case Type::number_unsigned:
      out += std::to_string(value.get<std::uint64_t>());
      return;
    case Type::number_float:
      out += python_float(value.get<double>());
      return;
    case Type::binary:  // the digits of an integer beyond 64 bits
      out.append(value.get_binary().begin(), value.get_binary().end());
      return;
    case Type::null:
    case Type::discarded:
      out += "null";
      return;
  }
}

/// The digits and the decimal exponent of d.ddd * 10^exponent.
struct Decimal {
  std::string digits;
  int exponent;
};

Decimal shortest_decimal(double magnitude) {
  std::array<char, 32> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude,
                                    std::chars_format::scientific);
  const std::string_view text(buffer.data(), result.ptr - buffer.data());
  const std::size_t mark = text.find('e');
  Decimal decimal{std::string(text.substr(0, 1)), 0};
  if (mark > 2) decimal.digits += text.substr(2, mark - 2);
  // from_chars takes no plus sign.
  const std::size_t first = mark + (text[mark + 1] == '+' ? 2 : 1);
  std::from_chars(text.data() + first, text.data() + text.size(), decimal.exponent);
  return decimal;
}

}  // namespace

std::string python_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  const Decimal decimal = shortest_decimal(std::fabs(value));
  const auto count = static_cast<int>(decimal.digits.size());
  std::string text = std::signbit(value) ? "-" : "";
  if (decimal.exponent < -4 || decimal.exponent >= 16) {
    text += decimal.digits[0];
    if (count > 1) text += "." + decimal.digits.substr(1);
    const std::string power = std::to_string(std::abs(decimal.exponent));
    text += decimal.exponent < 0 ? "e-" : "e+";
    if (power.size() < 2) text += '0';
    return text + power;
  }
  if (decimal.exponent < 0) {
    return text + "0." + std::string(-decimal.exponent - 1, '0') + decimal.digits;
  }
  const int whole = decimal.exponent + 1;
  if (count <= whole) return text + decimal.digits + std::string(whole - count, '0') + ".0";
  return text + decimal.digits.substr(0, whole) + "." + decimal.digits.substr(whole);
}

void append_json_escaped(std::string_view text, std::string& out) {
  static constexpr char kHex[] = "0123456789abcdef";
  for (const char character : text) {
    switch (character) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\b':
        out += "\\b";
        break;
      default:
        if (const auto byte = static_cast<unsigned char>(character); byte < 0x20) {
          out += "\\u00";
          out += kHex[byte >> 4];
          out += kHex[byte & 15];
        } else {
          out += character;
        }
    }
  }
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  append_json_escaped(text, out);
  out += '"';
  return out;
}

std::string python_json(const nlohmann::ordered_json& value) {
  std::string out;
  append_value(value, {", ", ": "}, out);
  return out;
}

std::string compact_json(const nlohmann::ordered_json& value) {
  std::string out;
  append_value(value, {",", ":"}, out);
  return out;
}

std::size_t json_depth(std::string_view text) {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char character = text[i];
    if (in_string) {
      if (character == '\\') ++i;
      if (character == '"') in_string = false;
    } else if (character == '"') {
      in_string = true;
    } else if (character == '[' || character == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((character == ']' || character == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace deepinfer
