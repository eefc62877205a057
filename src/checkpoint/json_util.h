#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

// Internal to the room: JSON that comes from files which may be damaged or hostile.

namespace deepinfer {

/// Parses JSON, refusing what a plain parser lets pass: a key twice in one object, bytes after the
/// value. Throws Error(kCheckpoint) that begins with `origin`.
nlohmann::json parse_strict_json(std::string_view text, const std::string& origin);

/// A value as text for a message, cut to about 60 characters.
std::string describe(const nlohmann::json& value);

/// One object of a configuration, read key by key. Remembers what was read, so that unknown keys
/// can be named at the end. Every failure is an Error(kCheckpoint) `origin: prefix.key: found X,
/// expected Y`. The object must outlive the reader.
class JsonSection {
 public:
  /// `prefix` is empty at the top level. Throws when `object` is not a JSON object.
  JsonSection(const nlohmann::json& object, std::string prefix, std::string origin);

  /// The value of `key`, or nullptr when it is absent or null. Counts as read.
  const nlohmann::json* find(const std::string& key);
  /// As find, but absent or null is an error with `expected`.
  const nlohmann::json& require(const std::string& key, const std::string& expected);

  std::int64_t integer(const std::string& key, std::int64_t low, std::int64_t high);
  std::int64_t integer_or(const std::string& key, std::int64_t low, std::int64_t high,
                          std::int64_t missing);
  /// A finite number in [low, high].
  double number(const std::string& key, double low, double high);
  double number_or(const std::string& key, double low, double high, double missing);
  bool boolean_or(const std::string& key, bool missing);
  std::string text(const std::string& key);
  std::vector<std::int64_t> integers(const std::string& key, std::int64_t low, std::int64_t high);

  /// The key must be there and equal `expected`.
  void require_equal(const std::string& key, const nlohmann::json& expected);
  /// The key may be absent; when it is there it must equal `expected`.
  void allow_only(const std::string& key, const nlohmann::json& expected);
  /// Keys that are known and mean nothing here.
  void ignore(std::initializer_list<const char*> keys);

  /// Names (with prefix) of keys that nothing has read.
  std::vector<std::string> unread() const;

  std::string full_name(const std::string& key) const;
  [[noreturn]] void fail(const std::string& key, const std::string& found,
                         const std::string& expected) const;

 private:
  double checked_number(const std::string& key, const nlohmann::json& value, double low,
                        double high) const;
  std::int64_t checked_integer(const std::string& key, const nlohmann::json& value,
                               std::int64_t low, std::int64_t high) const;

  const nlohmann::json* object_;
  std::string prefix_;
  std::string origin_;
  std::set<std::string> read_;
};

}  // namespace deepinfer
