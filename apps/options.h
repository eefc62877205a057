#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Options as a table: one description of each serves the command line, the help text, the
// environment, configuration files and `deepinfer env --explain`.

namespace deepinfer::cli {

enum class OptionKind {
  kFlag,  ///< no value; `--no-NAME` is its opposite when `negatable`
  kText,
  kInteger,
  kSeed,  ///< an integer of 64 bits, signed or not
  kNumber,
  kChoice,
};

/// One row of the table. Views point to literals.
struct OptionSpec {
  std::string_view name;          ///< the long name without dashes; the key of a config file
  std::string_view aliases = "";  ///< further spellings with their dashes: `-c,--ctx-size`
  OptionKind kind = OptionKind::kText;
  std::string_view value_name = "";     ///< shown in the help: `N`, `FILE`
  std::string_view help = "";           ///< what it does, without the default
  std::string_view default_value = "";  ///< in force when nobody says otherwise
  std::string_view default_note = "";   ///< shown instead when the default isn't a fixed value
  std::string_view choices = "";        ///< `a|b|c` of kChoice
  double minimum = -1e300;
  double maximum = 1e300;
  bool repeatable = false;
  bool negatable = false;
  bool utf8 = false;               ///< its texts must be valid UTF-8
  bool configurable = true;        ///< may stand in a config file
  std::string_view variable = "";  ///< the environment variable of the same meaning
};

struct OptionGroup {
  std::string_view title;
  std::vector<OptionSpec> options;
};

/// Where a value came from, highest precedence first.
enum class Origin { kCommandLine, kEnvironment, kConfigFile, kGenerationConfig, kBuiltIn };

struct Setting {
  std::vector<std::string> values;  ///< several for a repeatable option only; a flag's: true, false
  Origin origin = Origin::kBuiltIn;
  std::string place;  ///< for messages: `--top-p`, `DEEPINFER_NUMERICS`, `run.yaml: top_p`
};

/// Texts given for options, by option name, before they are checked.
using GivenValues = std::map<std::string, Setting, std::less<>>;

/// The values in force for one run of a command.
class Options {
 public:
  /// `layers` by precedence, the highest first. Throws Error(kInvalidArgument) naming the place of
  /// the first value that its option doesn't accept.
  Options(std::vector<OptionGroup> groups, const std::vector<GivenValues>& layers,
          std::vector<std::string> arguments);

  /// Whether there is any value, a built-in default included.
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Whether somebody gave a value; built-in defaults don't count.
  bool given(std::string_view name) const;
  const Setting* find(std::string_view name) const;

  // All of these need has(name).
  const std::string& text(std::string_view name) const;
  const std::vector<std::string>& texts(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  std::uint64_t seed(std::string_view name) const;  ///< a negative one modulo 2^64
  double number(std::string_view name) const;
  bool flag(std::string_view name) const;
  std::optional<std::string> optional_text(std::string_view name) const;

  /// The arguments that are no options.
  const std::vector<std::string>& arguments() const { return arguments_; }

  /// Gives values to options that have no more than their built-in default.
  void add_lower_layer(const GivenValues& layer);

  const std::vector<OptionGroup>& groups() const { return groups_; }

 private:
  const Setting& require(std::string_view name) const;

  std::vector<OptionGroup> groups_;
  std::map<std::string, Setting, std::less<>> settings_;
  std::vector<std::string> arguments_;
};

/// Reads the variables named in the table.
GivenValues environment_values(const std::vector<OptionGroup>& groups);

const OptionSpec* find_option(const std::vector<OptionGroup>& groups, std::string_view name);

/// All long spellings of an option, with dashes: `--ctx-size`, `--no-chunked-prefill`.
std::vector<std::string> long_spellings(const OptionSpec& spec);

/// The candidate that is closest to `text` in letters changed; empty when none is near.
std::string nearest_match(std::string_view text, const std::vector<std::string>& candidates);

/// `a|b|c` as its parts.
std::vector<std::string> split(std::string_view text, char separator);

std::string_view to_string(Origin origin);

}  // namespace deepinfer::cli
