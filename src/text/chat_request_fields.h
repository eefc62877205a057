#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_request_error.h"

// Internal to the room: typed reading of a request body.

namespace deepinfer {

/// Throws RequestError `path: found VALUE, expected EXPECTED`.
[[noreturn]] void fail_field(const std::string& path, const nlohmann::ordered_json& found,
                             std::string_view expected);
/// Throws RequestError `path: PROBLEM`.
[[noreturn]] void fail_field(const std::string& path, std::string_view problem);

std::string read_string(const nlohmann::ordered_json& value, const std::string& path);
bool read_bool(const nlohmann::ordered_json& value, const std::string& path);
/// A JSON integer (10.0 is none) in [low, high].
std::int64_t read_integer(const nlohmann::ordered_json& value, const std::string& path,
                          std::int64_t low, std::int64_t high);
/// A finite JSON number; `expected` describes the range that the caller checks.
double read_number(const nlohmann::ordered_json& value, const std::string& path,
                   std::string_view expected);
const nlohmann::ordered_json& read_array(const nlohmann::ordered_json& value,
                                         const std::string& path);
std::vector<std::string> read_strings(const nlohmann::ordered_json& value, const std::string& path);
std::vector<std::int64_t> read_token_ids(const nlohmann::ordered_json& value,
                                         const std::string& path);

/// Names one element of the array at `path`.
std::string element_path(const std::string& path, std::size_t index);

/// The members of one object. A null member counts as absent, as OpenAI's clients write it.
class RequestFields {
 public:
  /// Throws RequestError when `value` is no object. It must outlive the reader.
  RequestFields(const nlohmann::ordered_json& value, std::string path);

  /// The member, or nullptr when absent or null. Counts as read.
  const nlohmann::ordered_json* find(const std::string& key);
  /// Throws RequestError when it is absent or null.
  const nlohmann::ordered_json& require(const std::string& key, std::string_view expected);

  std::string path(std::string_view key) const;

  std::optional<std::string> text(const std::string& key);
  std::string required_text(const std::string& key);
  bool boolean_or(const std::string& key, bool missing);
  std::optional<std::int64_t> integer(const std::string& key, std::int64_t low, std::int64_t high);
  std::optional<double> number(const std::string& key, double low, double high);

  /// Members that are known and mean nothing here.
  void ignore(std::initializer_list<const char*> keys);
  /// Adds the paths of members that nothing has read, without indices, each once.
  void add_unknown(std::vector<std::string>& names) const;

 private:
  const nlohmann::ordered_json* object_;
  std::string path_;
  std::set<std::string> read_;
};

}  // namespace deepinfer
