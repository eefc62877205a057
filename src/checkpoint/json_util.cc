#include "checkpoint/json_util.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/error.h"

namespace deepinfer {
namespace {

using nlohmann::json;

std::string range_text(const std::string& kind, const std::string& low, const std::string& high) {
  return kind + " in [" + low + ", " + high + "]";
}

std::string number_text(double value) {
  std::ostringstream stream;
  stream << value;
  return stream.str();
}

}  // namespace

json parse_strict_json(std::string_view text, const std::string& origin) {
  // The parser's callback sees each key before the document keeps only the last of two equal ones.
  std::vector<std::set<std::string>> open_objects;
  std::string duplicate;
  bool too_deep = false;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    // Printing and comparing values recurse; parsing doesn't.
    constexpr int kDeepest = 64;
    too_deep |= depth > kDeepest;
    switch (event) {
      case json::parse_event_t::object_start:
        open_objects.emplace_back();
        break;
      case json::parse_event_t::object_end:
        open_objects.pop_back();
        break;
      case json::parse_event_t::key:
        if (!open_objects.back().insert(parsed.get<std::string>()).second && duplicate.empty()) {
          duplicate = parsed.get<std::string>();
        }
        break;
      default:
        break;
    }
    return !too_deep;
  };
  json document;
  try {
    document = json::parse(text.begin(), text.end(), watch);
  } catch (const json::exception& error) {
    // The library prefixes its messages with "[json.exception.parse_error.101] ".
    std::string message = error.what();
    if (const auto bracket = message.find("] "); bracket != std::string::npos) {
      message.erase(0, bracket + 2);
    }
    fail_checkpoint(origin + ": not valid JSON: " + message);
  }
  if (too_deep) fail_checkpoint(origin + ": nested deeper than any configuration or header is");
  if (!duplicate.empty()) {
    fail_checkpoint(origin + ": key " + describe(duplicate) + " stands twice in one JSON object");
  }
  return document;
}

std::string describe(const json& value) {
  constexpr std::size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

JsonSection::JsonSection(const json& object, std::string prefix, std::string origin)
    : object_(&object), prefix_(std::move(prefix)), origin_(std::move(origin)) {
  if (!object.is_object()) {
    fail_checkpoint(origin_ + ": " + (prefix_.empty() ? "top level" : prefix_) + ": found " +
                    describe(object) + ", expected an object");
  }
}

std::string JsonSection::full_name(const std::string& key) const {
  return prefix_.empty() ? key : prefix_ + "." + key;
}

void JsonSection::fail(const std::string& key, const std::string& found,
                       const std::string& expected) const {
  fail_checkpoint(origin_ + ": " + full_name(key) + ": found " + found + ", expected " + expected);
}

const json* JsonSection::find(const std::string& key) {
  read_.insert(key);
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

const json& JsonSection::require(const std::string& key, const std::string& expected) {
  const json* value = find(key);
  if (value == nullptr) fail(key, object_->contains(key) ? "null" : "no such key", expected);
  return *value;
}

std::int64_t JsonSection::checked_integer(const std::string& key, const json& value,
                                          std::int64_t low, std::int64_t high) const {
  const std::string expected = range_text("an integer", std::to_string(low), std::to_string(high));
  if (!value.is_number_integer()) fail(key, describe(value), expected);
  // An unsigned value above int64 would wrap to a negative one.
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
    fail(key, describe(value), expected);
  }
  const auto number = value.get<std::int64_t>();
  if (number < low || number > high) fail(key, describe(value), expected);
  return number;
}

double JsonSection::checked_number(const std::string& key, const json& value, double low,
                                   double high) const {
  const std::string expected = range_text("a number", number_text(low), number_text(high));
  if (!value.is_number()) fail(key, describe(value), expected);
  const auto number = value.get<double>();
  if (!(number >= low && number <= high)) fail(key, describe(value), expected);
  return number;
}

std::int64_t JsonSection::integer(const std::string& key, std::int64_t low, std::int64_t high) {
  return checked_integer(
      key, require(key, range_text("an integer", std::to_string(low), std::to_string(high))), low,
      high);
}

std::int64_t JsonSection::integer_or(const std::string& key, std::int64_t low, std::int64_t high,
                                     std::int64_t missing) {
  const json* value = find(key);
  return value == nullptr ? missing : checked_integer(key, *value, low, high);
}

double JsonSection::number(const std::string& key, double low, double high) {
  return checked_number(
      key, require(key, range_text("a number", number_text(low), number_text(high))), low, high);
}

double JsonSection::number_or(const std::string& key, double low, double high, double missing) {
  const json* value = find(key);
  return value == nullptr ? missing : checked_number(key, *value, low, high);
}

bool JsonSection::boolean_or(const std::string& key, bool missing) {
  const json* value = find(key);
  if (value == nullptr) return missing;
  if (!value->is_boolean()) fail(key, describe(*value), "true or false");
  return value->get<bool>();
}

std::string JsonSection::text(const std::string& key) {
  const json& value = require(key, "a string");
  if (!value.is_string()) fail(key, describe(value), "a string");
  return value.get<std::string>();
}

std::vector<std::int64_t> JsonSection::integers(const std::string& key, std::int64_t low,
                                                std::int64_t high) {
  const json& value = require(key, "a list of integers");
  if (!value.is_array()) fail(key, describe(value), "a list of integers");
  std::vector<std::int64_t> numbers;
  numbers.reserve(value.size());
  for (std::size_t index = 0; index < value.size(); ++index) {
    numbers.push_back(
        checked_integer(key + "[" + std::to_string(index) + "]", value[index], low, high));
  }
  return numbers;
}

void JsonSection::require_equal(const std::string& key, const json& expected) {
  const json& value = require(key, describe(expected));
  if (value != expected) fail(key, describe(value), describe(expected));
}

void JsonSection::allow_only(const std::string& key, const json& expected) {
  const json* value = find(key);
  if (value != nullptr && *value != expected) fail(key, describe(*value), describe(expected));
}

void JsonSection::ignore(std::initializer_list<const char*> keys) {
  for (const char* key : keys) read_.insert(key);
}

std::vector<std::string> JsonSection::unread() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : object_->items()) {
    if (!read_.contains(key)) names.push_back(full_name(key));
  }
  return names;
}

}  // namespace deepinfer
