#include "options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "text/utf8.h"

namespace deepinfer::cli {
namespace {

constexpr double kNoLimit = 1e300;

std::string number_text(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

std::string range_text(const OptionSpec& spec) {
  const bool below = spec.minimum > -kNoLimit;
  const bool above = spec.maximum < kNoLimit;
  if (below && above) {
    return " from " + number_text(spec.minimum) + " to " + number_text(spec.maximum);
  }
  if (below) return " of at least " + number_text(spec.minimum);
  if (above) return " of at most " + number_text(spec.maximum);
  return "";
}

std::string_view without_plus(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  return text;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  text = without_plus(text);
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc{} || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> parse_seed(std::string_view text) {
  if (const auto value = parse_integer(text)) return static_cast<std::uint64_t>(*value);
  std::uint64_t value = 0;
  text = without_plus(text);
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc{} || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  text = without_plus(text);
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc{} || result.ptr != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

[[noreturn]] void refuse(const Setting& setting, const std::string& found,
                         const std::string& expected) {
  fail_argument(setting.place + ": found '" + found + "', expected " + expected);
}

void check_number(const OptionSpec& spec, const Setting& setting, const std::string& found,
                  std::optional<double> value, const std::string& what) {
  if (!value || *value < spec.minimum || *value > spec.maximum) {
    refuse(setting, found, what + range_text(spec));
  }
}

// The words that configuration files and people use.
std::optional<bool> parse_flag(std::string_view text) {
  if (text == "true" || text == "on" || text == "yes" || text == "1") return true;
  if (text == "false" || text == "off" || text == "no" || text == "0") return false;
  return std::nullopt;
}

void check(const OptionSpec& spec, Setting& setting) {
  for (std::string& value : setting.values) {
    switch (spec.kind) {
      case OptionKind::kText:
        if (spec.utf8) require_valid_utf8(value, setting.place);
        break;
      case OptionKind::kInteger:
        check_number(spec, setting, value, parse_integer(value), "an integer");
        break;
      case OptionKind::kSeed:
        if (!parse_seed(value)) refuse(setting, value, "an integer of 64 bits");
        break;
      case OptionKind::kNumber:
        check_number(spec, setting, value, parse_number(value), "a number");
        break;
      case OptionKind::kFlag: {
        const auto flag = parse_flag(value);
        if (!flag) refuse(setting, value, "true or false");
        value = *flag ? "true" : "false";
        break;
      }
      case OptionKind::kChoice: {
        const auto choices = split(spec.choices, '|');
        // YAML reads a bare `on` as a boolean.
        if (value == "true" && std::ranges::find(choices, "on") != choices.end()) value = "on";
        if (value == "false" && std::ranges::find(choices, "off") != choices.end()) value = "off";
        if (std::ranges::find(choices, value) != choices.end()) break;
        std::string expected;
        for (std::size_t i = 0; i < choices.size(); ++i) {
          if (i != 0) expected += i + 1 == choices.size() ? " or " : ", ";
          expected += choices[i];
        }
        refuse(setting, value, expected);
      }
    }
  }
  if (!spec.repeatable && setting.values.size() > 1) {
    refuse(setting, "a list", "one value");
  }
}

// Letters to insert, drop, change or swap with their neighbour.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const std::size_t change = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

Options::Options(std::vector<OptionGroup> groups, const std::vector<GivenValues>& layers,
                 std::vector<std::string> arguments)
    : groups_(std::move(groups)), arguments_(std::move(arguments)) {
  for (const OptionGroup& group : groups_) {
    for (const OptionSpec& spec : group.options) {
      for (const GivenValues& layer : layers) {
        const auto found = layer.find(spec.name);
        if (found == layer.end()) continue;
        Setting setting = found->second;
        // A bad value is refused even where a higher layer hides it: it would strike later.
        check(spec, setting);
        settings_.try_emplace(std::string(spec.name), std::move(setting));
      }
      if (!spec.default_value.empty()) {
        settings_.try_emplace(
            std::string(spec.name),
            Setting{{std::string(spec.default_value)}, Origin::kBuiltIn, "built-in default"});
      }
    }
  }
}

void Options::add_lower_layer(const GivenValues& layer) {
  for (const auto& [name, value] : layer) {
    const OptionSpec* spec = find_option(groups_, name);
    if (spec == nullptr || given(name)) continue;
    Setting setting = value;
    check(*spec, setting);
    settings_.insert_or_assign(name, std::move(setting));
  }
}

const Setting* Options::find(std::string_view name) const {
  const auto found = settings_.find(name);
  return found == settings_.end() ? nullptr : &found->second;
}

bool Options::given(std::string_view name) const {
  const Setting* setting = find(name);
  return setting != nullptr && setting->origin != Origin::kBuiltIn;
}

const Setting& Options::require(std::string_view name) const {
  const Setting* setting = find(name);
  if (setting == nullptr) fail_internal("option " + std::string(name) + " has no value");
  return *setting;
}

const std::string& Options::text(std::string_view name) const {
  return require(name).values.front();
}
const std::vector<std::string>& Options::texts(std::string_view name) const {
  return require(name).values;
}
std::int64_t Options::integer(std::string_view name) const {
  return parse_integer(text(name)).value();
}
std::uint64_t Options::seed(std::string_view name) const { return parse_seed(text(name)).value(); }
double Options::number(std::string_view name) const { return parse_number(text(name)).value(); }
bool Options::flag(std::string_view name) const { return has(name) && text(name) == "true"; }
std::optional<std::string> Options::optional_text(std::string_view name) const {
  if (!has(name)) return std::nullopt;
  return text(name);
}

GivenValues environment_values(const std::vector<OptionGroup>& groups) {
  GivenValues values;
  for (const OptionGroup& group : groups) {
    for (const OptionSpec& spec : group.options) {
      if (spec.variable.empty()) continue;
      const std::string variable(spec.variable);
      const char* value = std::getenv(variable.c_str());
      if (value == nullptr || *value == '\0') continue;
      values.insert_or_assign(std::string(spec.name),
                              Setting{{value}, Origin::kEnvironment, variable});
    }
  }
  return values;
}

const OptionSpec* find_option(const std::vector<OptionGroup>& groups, std::string_view name) {
  for (const OptionGroup& group : groups) {
    for (const OptionSpec& spec : group.options) {
      if (spec.name == name) return &spec;
    }
  }
  return nullptr;
}

std::vector<std::string> long_spellings(const OptionSpec& spec) {
  std::vector<std::string> spellings = {"--" + std::string(spec.name)};
  for (std::string& alias : split(spec.aliases, ',')) {
    if (alias.starts_with("--")) spellings.push_back(std::move(alias));
  }
  if (spec.negatable) spellings.push_back("--no-" + std::string(spec.name));
  return spellings;
}

std::string nearest_match(std::string_view text, const std::vector<std::string>& candidates) {
  const std::size_t near = std::max<std::size_t>(2, text.size() / 3);
  std::string best;
  std::size_t best_distance = near + 1;
  for (const std::string& candidate : candidates) {
    std::size_t distance = edit_distance(text, candidate);
    // `--max-token` for `--max-tokens`, `--temp` for `--temperature`.
    if (text.size() > 3 && candidate.starts_with(text)) distance = std::min(distance, near);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::string_view to_string(Origin origin) {
  switch (origin) {
    case Origin::kCommandLine:
      return "command line";
    case Origin::kEnvironment:
      return "environment";
    case Origin::kConfigFile:
      return "config file";
    case Origin::kGenerationConfig:
      return "generation_config.json";
    case Origin::kBuiltIn:
      return "built-in default";
  }
  return "unknown";
}

}  // namespace deepinfer::cli
