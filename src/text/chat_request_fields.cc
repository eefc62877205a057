#include "text/chat_request_fields.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "text/python_json.h"

namespace deepinfer {
namespace {

constexpr std::size_t kShownBytes = 60;

/// A value for a message: what it is, and its text cut to a readable length.
std::string describe(const nlohmann::ordered_json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list of " + std::to_string(value.size());
  std::string text = python_json(value);
  if (text.size() <= kShownBytes) return text;
  std::size_t end = kShownBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

/// `messages[3].content` -> `messages[].content`
std::string without_indices(std::string_view path) {
  std::string name;
  bool inside = false;
  for (const char character : path) {
    if (character == ']') inside = false;
    if (!inside) name += character;
    if (character == '[') inside = true;
  }
  return name;
}

}  // namespace

void fail_field(const std::string& path, const nlohmann::ordered_json& found,
                std::string_view expected) {
  fail_field(path, "found " + describe(found) + ", expected " + std::string(expected));
}

void fail_field(const std::string& path, std::string_view problem) {
  const std::string where = path.empty() ? "the request body" : path;
  throw RequestError(path, where + ": " + std::string(problem));
}

std::string read_string(const nlohmann::ordered_json& value, const std::string& path) {
  if (!value.is_string()) fail_field(path, value, "a string");
  return value.get<std::string>();
}

bool read_bool(const nlohmann::ordered_json& value, const std::string& path) {
  if (!value.is_boolean()) fail_field(path, value, "true or false");
  return value.get<bool>();
}

std::int64_t read_integer(const nlohmann::ordered_json& value, const std::string& path,
                          std::int64_t low, std::int64_t high) {
  const bool too_large =
      value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  if (value.is_number_integer() && !too_large) {
    const auto number = value.get<std::int64_t>();
    if (number >= low && number <= high) return number;
  }
  fail_field(path, value, "an integer from " + std::to_string(low) + " to " + std::to_string(high));
}

double read_number(const nlohmann::ordered_json& value, const std::string& path,
                   std::string_view expected) {
  if (!value.is_number() || !std::isfinite(value.get<double>())) fail_field(path, value, expected);
  return value.get<double>();
}

const nlohmann::ordered_json& read_array(const nlohmann::ordered_json& value,
                                         const std::string& path) {
  if (!value.is_array()) fail_field(path, value, "a list");
  return value;
}

std::vector<std::string> read_strings(const nlohmann::ordered_json& value,
                                      const std::string& path) {
  std::vector<std::string> strings;
  for (const auto& element : read_array(value, path)) {
    strings.push_back(read_string(element, element_path(path, strings.size())));
  }
  return strings;
}

std::vector<std::int64_t> read_token_ids(const nlohmann::ordered_json& value,
                                         const std::string& path) {
  std::vector<std::int64_t> ids;
  for (const auto& element : read_array(value, path)) {
    ids.push_back(read_integer(element, element_path(path, ids.size()), 0,
                               std::numeric_limits<std::int32_t>::max()));
  }
  return ids;
}

std::string element_path(const std::string& path, std::size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

RequestFields::RequestFields(const nlohmann::ordered_json& value, std::string path)
    : object_(&value), path_(std::move(path)) {
  if (!value.is_object()) fail_field(path_, value, "an object");
}

const nlohmann::ordered_json* RequestFields::find(const std::string& key) {
  read_.insert(key);
  const auto member = object_->find(key);
  return member == object_->end() || member->is_null() ? nullptr : &*member;
}

const nlohmann::ordered_json& RequestFields::require(const std::string& key,
                                                     std::string_view expected) {
  const auto* value = find(key);
  if (value == nullptr) fail_field(path(key), "missing, expected " + std::string(expected));
  return *value;
}

std::string RequestFields::path(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

std::optional<std::string> RequestFields::text(const std::string& key) {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  return read_string(*value, path(key));
}

std::string RequestFields::required_text(const std::string& key) {
  return read_string(require(key, "a string"), path(key));
}

bool RequestFields::boolean_or(const std::string& key, bool missing) {
  const auto* value = find(key);
  return value == nullptr ? missing : read_bool(*value, path(key));
}

std::optional<std::int64_t> RequestFields::integer(const std::string& key, std::int64_t low,
                                                   std::int64_t high) {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  return read_integer(*value, path(key), low, high);
}

std::optional<double> RequestFields::number(const std::string& key, double low, double high) {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::string expected = "a number from " + python_float(low) + " to " + python_float(high);
  const double number = read_number(*value, path(key), expected);
  if (number < low || number > high) fail_field(path(key), *value, expected);
  return number;
}

void RequestFields::ignore(std::initializer_list<const char*> keys) {
  for (const char* key : keys) read_.insert(key);
}

void RequestFields::add_unknown(std::vector<std::string>& names) const {
  for (const auto& [key, value] : object_->items()) {
    if (read_.contains(key)) continue;
    std::string name = without_indices(path_) + (path_.empty() ? "" : ".") + key;
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(std::move(name));
    }
  }
}

}  // namespace deepinfer
