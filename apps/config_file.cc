#include "config_file.h"

// The one place that includes yaml-cpp. JSON is read by it too, being a subset of YAML.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/error.h"

namespace deepinfer::cli {
namespace {

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || std::filesystem::is_directory(path)) {
    fail_argument("--config " + path.string() + ": can't be read");
  }
  std::string content = text.str();
  // YAML forbids tabs as indentation, JSON allows them.
  if (content.find_first_not_of(" \t\r\n") == content.find('{')) {
    std::ranges::replace(content, '\t', ' ');
  }
  return content;
}

std::string place_of(const std::filesystem::path& path, const YAML::Mark& mark) {
  if (mark.line < 0) return path.string();
  return path.string() + ":" + std::to_string(mark.line + 1);
}

std::string scalar(const YAML::Node& node, const std::string& place) {
  if (!node.IsScalar()) fail_argument(place + ": expected a plain value or a list of them");
  return node.Scalar();
}

}  // namespace

GivenValues read_config_file(const std::filesystem::path& path,
                             const std::vector<OptionGroup>& known) {
  YAML::Node root;
  try {
    root = YAML::Load(read_text(path));
  } catch (const YAML::Exception& error) {
    fail_argument(place_of(path, error.mark) + ": " + error.msg);
  }
  GivenValues values;
  if (root.IsNull()) return values;
  if (!root.IsMap()) fail_argument(path.string() + ": expected a mapping of option names");

  std::vector<std::string> names;
  for (const OptionGroup& group : known) {
    for (const OptionSpec& spec : group.options) {
      if (spec.configurable) names.emplace_back(spec.name);
    }
  }
  for (const auto& entry : root) {
    const std::string key = scalar(entry.first, path.string());
    const std::string place = place_of(path, entry.first.Mark()) + ": " + key;
    std::string name = key;
    std::ranges::replace(name, '_', '-');
    if (std::ranges::find(names, name) == names.end()) {
      const std::string nearest = nearest_match(name, names);
      fail_argument(place + ": unknown key" +
                    (nearest.empty() ? std::string() : "; did you mean " + nearest + "?"));
    }
    Setting setting{{}, Origin::kConfigFile, place};
    if (entry.second.IsNull()) continue;  // `key:` without a value says nothing
    if (entry.second.IsSequence()) {
      for (const YAML::Node& item : entry.second) setting.values.push_back(scalar(item, place));
      if (setting.values.empty()) continue;
    } else {
      setting.values.push_back(scalar(entry.second, place));
    }
    if (!values.try_emplace(name, std::move(setting)).second) {
      fail_argument(place + ": stands twice");
    }
  }
  return values;
}

}  // namespace deepinfer::cli
