#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "api/environment.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "checkpoint/lookup.h"
#include "commands/commands.h"
#include "config_file.h"
#include "json_output.h"
#include "option_groups.h"
#include "output.h"

namespace deepinfer::cli {
namespace {

#ifdef __clang__
constexpr const char* kCompiler = "clang " __clang_version__;
#else
constexpr const char* kCompiler = "gcc " __VERSION__;
#endif

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

double memory_gib() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<double>(sysconf(_SC_PAGE_SIZE)) / (1 << 30);
}

Json devices_value() {
  return Json::array({{{"name", "cpu"},
                       {"description", cpu_name()},
                       {"threads", default_thread_count()},
                       {"memory_gib", std::round(memory_gib() * 10) / 10}},
                      {{"name", "reference"},
                       {"description", "plain loops on the CPU"},
                       {"threads", 1},
                       {"memory_gib", std::round(memory_gib() * 10) / 10}}});
}

Json build_value() {
  return {{"compiler", kCompiler},
          {"type", DEEPINFER_BUILD_TYPE},
          {"sanitizers", DEEPINFER_SANITIZERS},
          {"accelerators", Json::array()}};
}

Json variables_value() {
  Json list = Json::array();
  for (const EnvironmentSetting& setting : Environment().settings()) {
    list.push_back({{"name", setting.variable->name},
                    {"value", setting.value.empty() ? Json() : Json(to_utf8(setting.value))},
                    {"origin", setting.from_environment ? "environment" : "default"},
                    {"support", to_string(setting.variable->support)},
                    {"meaning", setting.variable->meaning},
                    {"error", setting.error.empty() ? Json() : Json(setting.error)}});
  }
  return list;
}

std::string numerics_text(const Options& options) {
  return options.optional_text("numerics").value_or("exact+cache");
}

void print_text(const Options& options, Output& output) {
  output.line("deepinfer " DEEPINFER_VERSION);
  output.line(fmt::format("compiler    {}", kCompiler));
  output.line(fmt::format("build       {}{}", DEEPINFER_BUILD_TYPE,
                          *DEEPINFER_SANITIZERS == '\0'
                              ? std::string()
                              : std::string(", sanitizers ") + DEEPINFER_SANITIZERS));
  output.line(fmt::format("numerics    {}", numerics_text(options)));
  output.line("\nDevices");
  for (const Json& device : devices_value()) {
    output.line(fmt::format("  {:<10} {}, {} threads, {} GiB", device["name"].get<std::string>(),
                            device["description"].get<std::string>(), device["threads"].get<int>(),
                            device["memory_gib"].get<double>()));
  }
  output.line("\nVariables");
  for (const EnvironmentSetting& setting : Environment().settings()) {
    output.line(fmt::format("  {:<46} {:<14} {:<12} {}", setting.variable->name,
                            setting.value.empty() ? "-" : to_utf8(setting.value),
                            setting.from_environment ? "environment" : "default",
                            to_string(setting.variable->support)));
  }
}

// Options of all commands with the values that the environment, the config file and this command
// line give them.
Options merged_options(const Options& own) {
  GivenValues command_line;
  for (const OptionGroup& group : own.groups()) {
    for (const OptionSpec& spec : group.options) {
      const Setting* setting = own.find(spec.name);
      if (setting != nullptr && setting->origin == Origin::kCommandLine) {
        command_line.insert_or_assign(std::string(spec.name), *setting);
      }
    }
  }
  const std::vector<OptionGroup> groups = all_option_groups();
  GivenValues from_file;
  if (own.has("config")) from_file = read_config_file(own.text("config"), groups);
  return {groups, {command_line, environment_values(groups), from_file}, {}};
}

// The option that a spelling means: `--top-p`, `top-p`, `-n`, `max_tokens`.
const OptionSpec& named_option(const std::vector<OptionGroup>& groups, std::string name) {
  std::vector<std::string> names;
  std::ranges::replace(name, '_', '-');
  for (const OptionGroup& group : groups) {
    for (const OptionSpec& spec : group.options) {
      if (name == spec.name || name == "--" + std::string(spec.name)) return spec;
      for (const std::string& alias : split(spec.aliases, ',')) {
        if (name == alias || "--" + name == alias) return spec;
      }
      names.emplace_back(spec.name);
    }
  }
  while (name.starts_with('-')) name.erase(0, 1);
  const std::string nearest = nearest_match(name, names);
  fail_argument("--explain: there is no option " + name +
                (nearest.empty() ? std::string() : "; did you mean " + nearest + "?"));
}

int explain(const Options& own, Output& output) {
  Options options = merged_options(own);
  const OptionSpec& spec = named_option(options.groups(), own.text("explain"));
  const std::string name(spec.name);

  std::string directory;
  std::string sentence;
  const LookupResult found =
      find_model(options.optional_text("model"), LookupEnvironment::of_process());
  if (const auto* location = std::get_if<ModelLocation>(&found)) {
    directory = location->directory.string();
    sentence = location->sentence;
    options.add_lower_layer(generation_config_values(options, directory));
  }

  Json json = {{"schema_version", kSchemaVersion},
               {"option", name},
               {"value", nullptr},
               {"origin", nullptr},
               {"place", nullptr}};
  if (const Setting* setting = options.find(name)) {
    json["value"] =
        setting->values.size() == 1 ? Json(setting->values.front()) : Json(setting->values);
    json["origin"] = to_string(setting->origin);
    json["place"] = setting->place;
  }
  if (own.flag("json")) {
    output.line(dump(json));
    return 0;
  }
  if (json["value"].is_null()) {
    output.line(name + " is not set" +
                (spec.default_note.empty() ? std::string()
                                           : "; default: " + std::string(spec.default_note)));
  } else {
    const std::string value =
        json["value"].is_string() ? json["value"].get<std::string>() : json["value"].dump();
    const std::string origin = json["origin"].get<std::string>();
    const std::string place = json["place"].get<std::string>();
    output.line(name + " = " + value + " (" + origin +
                (place == origin ? std::string() : ", " + place) + ")");
  }
  if (name == "model" && !sentence.empty()) output.line(sentence);
  return 0;
}

int run(Options& options, Output& output) {
  if (options.has("explain")) return explain(options, output);
  if (options.flag("json")) {
    output.line(dump({{"schema_version", kSchemaVersion},
                      {"version", DEEPINFER_VERSION},
                      {"build", build_value()},
                      {"numerics", numerics_text(options)},
                      {"devices", devices_value()},
                      {"variables", variables_value()}}));
  } else {
    print_text(options, output);
  }
  output.flush();
  // A variable that would be refused by every other command is worth an exit code here too.
  Environment().validate();
  return 0;
}

}  // namespace

Command env_command() {
  return {.name = "env",
          .summary = "Version, build, devices, and every DEEPINFER_* variable with its origin.",
          .description = "  deepinfer env\n  deepinfer env --explain top-p --config run.yaml",
          .argument = {},
          .groups = {{"Environment",
                      {{.name = "explain",
                        .value_name = "OPTION",
                        .help = "the value of one option and where it comes from",
                        .configurable = false},
                       {.name = "json",
                        .kind = OptionKind::kFlag,
                        .help = "a JSON object (docs/json.md)"}}},
                     sampling_options("256"),
                     model_options(),
                     engine_options(),
                     general_options()},
          .run = run};
}

}  // namespace deepinfer::cli
