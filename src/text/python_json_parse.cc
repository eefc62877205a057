#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "text/python_json.h"

namespace deepinfer {
namespace {

using Json = nlohmann::ordered_json;

/// Builds the value from the library's parse events. The library's own builder turns large integers
/// into doubles and has no limit on nesting.
class ValueBuilder final : public nlohmann::json_sax<Json> {
 public:
  explicit ValueBuilder(std::string* problem) : problem_(problem) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    if (text.find_first_of(".eE") != std::string::npos) return add(value);
    return add(Json::binary({text.begin(), text.end()}));
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // JSON text has none

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    key_ = std::move(value);
    return true;
  }

  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // The library puts a tag like "[json.exception.parse_error.101] " in front.
    const std::string_view message = error.what();
    const std::size_t tag = message.find("] ");
    return fail(std::string(message.substr(tag == std::string_view::npos ? 0 : tag + 2)));
  }

 private:
  bool fail(std::string problem) {
    if (problem_ != nullptr) *problem_ = std::move(problem);
    return false;
  }

  Json& place(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return parent.back();
    }
    return parent[key_] = std::move(value);
  }

  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json container) {
    if (open_.size() == kMaxJsonDepth) {
      return fail("nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
    }
    // Stays valid: a container gets no further members while one of its members is open.
    open_.push_back(&place(std::move(container)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string* problem_;
  Json root_;
  std::vector<Json*> open_;
  std::string key_;
};

}  // namespace

std::optional<nlohmann::ordered_json> parse_json_value(std::string_view text,
                                                       std::string* problem) {
  // The library takes a NUL for the end of the text.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    if (problem != nullptr) *problem = "NUL at byte " + std::to_string(nul);
    return std::nullopt;
  }
  ValueBuilder builder(problem);
  if (!Json::sax_parse(text, &builder)) return std::nullopt;
  return builder.take();
}

}  // namespace deepinfer
