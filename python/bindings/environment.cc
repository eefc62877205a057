#include "api/environment.h"

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <variant>

#include "base/log.h"
#include "checkpoint/lookup.h"
#include "conversions.h"

namespace nb = nanobind;

namespace deepinfer::python {
namespace {

const char* type_name(EnvironmentType type) {
  switch (type) {
    case EnvironmentType::kBool:
      return "bool";
    case EnvironmentType::kInt:
      return "int";
    case EnvironmentType::kFloat:
      return "float";
    case EnvironmentType::kFloatList:
      return "float_list";
    case EnvironmentType::kChoice:
      return "choice";
    case EnvironmentType::kText:
      return "text";
    case EnvironmentType::kPath:
      return "path";
    case EnvironmentType::kBytes:
      return "bytes";
    case EnvironmentType::kIdRanges:
      return "id_ranges";
  }
  return "text";
}

nb::list settings() {
  nb::list rows;
  for (const EnvironmentSetting& setting : Environment().settings()) {
    nb::dict row;
    row["name"] = to_str(setting.variable->name);
    row["type"] = type_name(setting.variable->type);
    row["default"] = to_str(setting.variable->default_text);
    row["value"] = to_str(setting.value);
    row["from_environment"] = setting.from_environment;
    row["meaning"] = to_str(setting.variable->meaning);
    row["support"] = to_str(to_string(setting.variable->support));
    row["error"] = to_str(setting.error);
    rows.append(row);
  }
  return rows;
}

// Where a checkpoint lies: (directory, None), or (None, (repository, revision, reason)) when it has
// to be downloaded first. What was found without a name is said in the log.
nb::tuple find_checkpoint(nb::object name, nb::str package_directory) {
  std::optional<std::string> model;
  if (!name.is_none()) model = to_utf8(name, "model");
  LookupEnvironment environment = LookupEnvironment::of_process();
  environment.package_directory = to_utf8(package_directory, "package_directory");
  const LookupResult result = find_model(model, environment);
  if (const auto* needed = std::get_if<DownloadNeeded>(&result)) {
    return nb::make_tuple(nb::none(),
                          nb::make_tuple(to_str(needed->repository), to_str(needed->revision),
                                         to_str(needed->reason)));
  }
  const auto& location = std::get<ModelLocation>(result);
  log(model ? LogLevel::kInfo : LogLevel::kWarn, location.sentence);
  return nb::make_tuple(to_str(location.directory.string()), nb::none());
}

}  // namespace

void bind_environment(nb::module_& module) {
  module.def("find_checkpoint", &find_checkpoint, nb::arg("name").none(),
             nb::arg("package_directory"),
             nb::sig("def find_checkpoint(name: str | None, package_directory: str) -> tuple[str | "
                     "None, tuple[str, str, str] | None]"),
             "The folder of a checkpoint, or what has to be downloaded.");
  module.def("environment_settings", &settings,
             nb::sig("def environment_settings() -> list[dict[str, typing.Any]]"),
             "Every DEEPINFER_* variable with its type, default, present value and meaning.");
  module.def(
      "parse_bytes",
      [](nb::str text, nb::str origin) {
        return parse_bytes(to_utf8(text, "text"), to_utf8(origin, "origin"));
      },
      nb::arg("text"), nb::arg("origin"), "Bytes of `12GiB` or `1048576`.");
  module.def(
      "set_log_level",
      [](nb::str level) { set_log_level(parse_log_level(to_utf8(level, "level"), "log level")); },
      nb::arg("level"),
      "Sets the level of the engine's log on stderr: debug, info, warn, error, off.");
}

}  // namespace deepinfer::python
