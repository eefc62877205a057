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

/// Builds the document and sees each key before an object would keep only one of two equal ones.
/// The library's parser callback could too, but it walks the whole parent at the end of every
/// object: 2.4 s instead of 0.6 s for the headers of the real model's 96,085 tensors, on one core
/// (`deepinfer inspect` on a directory of sparse shards).
class StrictBuilder final : public json::json_sax_t {
 public:
  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(json::number_integer_t value) override { return add(value); }
  bool number_unsigned(json::number_unsigned_t value) override { return add(value); }
  bool number_float(json::number_float_t value, const json::string_t& /*text*/) override {
    return add(value);
  }
  bool string(json::string_t& value) override { return add(std::move(value)); }
  bool binary(json::binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*elements*/) override { return open(json::object()); }
  bool start_array(std::size_t /*elements*/) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(json::string_t& name) override {
    const auto [place, added] = open_.back()->emplace(name, nullptr);
    if (!added) error_ = "key " + describe(name) + " stands twice in one JSON object";
    member_ = &place.value();
    return added;
  }

  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const json::exception& error) override {
    // The library prefixes its messages with "[json.exception.parse_error.101] ".
    error_ = error.what();
    if (const auto bracket = error_.find("] "); bracket != std::string::npos) {
      error_.erase(0, bracket + 2);
    }
    error_ = "not valid JSON: " + error_;
    return false;
  }

  const std::string& error() const { return error_; }
  json take() { return std::move(root_); }

 private:
  json* place(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *member_ = std::move(value);
    return member_;
  }

  bool add(json value) {
    place(std::move(value));
    return true;
  }

  bool open(json container) {
    // Printing and comparing values recurse; parsing doesn't.
    constexpr std::size_t kDeepest = 64;
    if (open_.size() == kDeepest) {
      error_ = "nested deeper than any configuration or header is";
      return false;
    }
    open_.push_back(place(std::move(container)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  json root_;
  std::vector<json*> open_;  ///< stable: a container doesn't grow while one inside it is open
  json* member_ = nullptr;   ///< where the value of the last key goes
  std::string error_;
};

}  // namespace

json parse_strict_json(std::string_view text, const std::string& origin) {
  StrictBuilder builder;
  if (!json::sax_parse(text.begin(), text.end(), &builder)) {
    fail_checkpoint(origin + ": " + builder.error());
  }
  return builder.take();
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
