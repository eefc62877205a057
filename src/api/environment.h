#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace deepinfer {

/// How far a variable of the official package is honoured here (interface.md 3).
enum class EnvironmentSupport {
  kHonoured,
  kAcceptedOnCpu,  ///< valid, without effect on a CPU
  kMultiDevice,    ///< honoured with more than one device
  kLater,          ///< validated; belongs to a part that this version lacks
  kUnknown,        ///< known to the official package only: ignored
};
std::string_view to_string(EnvironmentSupport support);

enum class EnvironmentType {
  kBool,  ///< `0`, empty, `false`, `False` are off; anything else is on
  kInt,
  kFloat,
  kFloatList,  ///< comma-separated
  kChoice,     ///< one of EnvironmentVariable::choices
  kText,
  kPath,
  kBytes,     ///< a number, or one with KiB, MiB, GiB, TiB
  kIdRanges,  ///< `0..3,7,10..12`: inclusive, strictly increasing
};

/// One row of the table.
struct EnvironmentVariable {
  std::string_view name;
  EnvironmentType type = EnvironmentType::kText;
  std::string_view default_text;  ///< as a user would write it; empty: unset
  std::string_view meaning = "";
  EnvironmentSupport support = EnvironmentSupport::kHonoured;
  std::string_view choices = "";  ///< `a|b|c`, for kChoice
  double minimum = -1e300;        ///< of kInt and kFloat
  double maximum = 1e300;
};

/// Every DEEPINFER_* variable, in the order of the documentation.
std::span<const EnvironmentVariable> environment_variables();

/// A variable with its present value, for `deepinfer env` and Python's `envs`.
struct EnvironmentSetting {
  const EnvironmentVariable* variable = nullptr;
  std::string value;  ///< the text that is in force
  bool from_environment = false;
  std::string error;  ///< why the text is refused; empty when it is valid
};

/// Typed, strict access to the variables. A value that can't be parsed or is out of range throws
/// Error(kInvalidArgument) whose message starts with the variable's name. Unset gives nullopt; the
/// default is the caller's.
class Environment {
 public:
  using Lookup = std::function<std::optional<std::string>(std::string_view name)>;

  /// The process's variables.
  Environment();
  /// Tests pass their own.
  explicit Environment(Lookup lookup) : lookup_(std::move(lookup)) {}

  std::optional<std::string> text(std::string_view name) const;
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<std::int64_t> integer(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;
  std::optional<std::uint64_t> bytes(std::string_view name) const;
  /// Ids of a kIdRanges variable, ascending. Empty when unset.
  std::vector<std::int32_t> id_ranges(std::string_view name) const;

  /// All variables with their values; never throws for a bad value (see EnvironmentSetting::error).
  std::vector<EnvironmentSetting> settings() const;
  /// Throws for the first variable that is set and invalid: every run checks all of them.
  void validate() const;

 private:
  /// The raw text after checking it against the table's row; throws for a name not in the table.
  std::optional<std::string> checked(std::string_view name) const;

  Lookup lookup_;
};

/// Bytes of `12GiB`, `1048576`, ...; throws Error(kInvalidArgument) naming `origin`.
std::uint64_t parse_bytes(std::string_view text, std::string_view origin);

/// Ids of `0..3,7`; throws Error(kInvalidArgument) naming `origin`.
std::vector<std::int32_t> parse_id_ranges(std::string_view text, std::string_view origin);

}  // namespace deepinfer
