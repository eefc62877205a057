#include "checkpoint/lookup.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "checkpoint/directory_layout.h"

namespace deepinfer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBundledName = "tiny";

std::optional<std::string> value_of(const LookupEnvironment& environment, const std::string& name) {
  auto value = environment.variable(name);
  if (value && value->empty()) return std::nullopt;
  return value;
}

fs::path expand_home(const std::string& path, const LookupEnvironment& environment) {
  if (path == "~" || path.starts_with("~/")) {
    if (const auto home = value_of(environment, "HOME")) {
      return fs::path(*home) / (path.size() > 2 ? path.substr(2) : "");
    }
  }
  return path;
}

struct HubName {
  std::string repository;
  std::string revision = "main";
};

bool is_name_part(std::string_view part) {
  return !part.empty() && part != "." && part != ".." &&
         std::all_of(part.begin(), part.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
         });
}

/// ORG/NAME[@REVISION], or nothing.
std::optional<HubName> parse_hub_name(const std::string& text) {
  HubName name;
  const auto at = text.find('@');
  name.repository = text.substr(0, at);
  if (at != std::string::npos) {
    name.revision = text.substr(at + 1);
    // A revision may be a branch with slashes; each part becomes a folder of the cache.
    std::string_view rest = name.revision;
    while (true) {
      const auto slash = rest.find('/');
      if (!is_name_part(rest.substr(0, slash))) return std::nullopt;
      if (slash == std::string_view::npos) break;
      rest.remove_prefix(slash + 1);
    }
  }
  const auto slash = name.repository.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const std::string_view repository = name.repository;
  if (!is_name_part(repository.substr(0, slash)) || !is_name_part(repository.substr(slash + 1))) {
    return std::nullopt;
  }
  return name;
}

/// The snapshot folder of a repository's revision, or what is missing.
struct CacheState {
  fs::path snapshot;
  std::string reason;  ///< empty when the snapshot is complete
};

CacheState look_in_cache(const HubName& name, const LookupEnvironment& environment) {
  const fs::path cache = hub_cache_directory(environment);
  std::string folder = "models--" + name.repository;
  folder.replace(folder.find('/'), 1, "--");
  const fs::path root = cache / folder;
  CacheState state;
  if (cache.empty() || !fs::is_directory(root)) {
    state.reason = "it isn't in the Hugging Face cache";
    return state;
  }
  std::string commit = name.revision;
  if (std::ifstream ref(root / "refs" / name.revision); ref) {
    ref >> commit;
    if (!is_name_part(commit)) commit = name.revision;
  }
  state.snapshot = root / "snapshots" / commit;
  if (!fs::is_directory(state.snapshot)) {
    state.reason = "the Hugging Face cache has no revision " + name.revision + " of it";
    return state;
  }
  const auto missing = missing_files(state.snapshot);
  if (!missing.empty()) {
    state.reason = "its copy in the Hugging Face cache is incomplete: " + missing.front();
    if (missing.size() > 1) state.reason += " and " + std::to_string(missing.size() - 1) + " more";
    if (const int partial = count_incomplete_downloads(state.snapshot); partial > 0) {
      state.reason += "; " + std::to_string(partial) + " unfinished downloads (*.incomplete)";
    }
  }
  return state;
}

fs::path find_bundled(const LookupEnvironment& environment) {
  std::vector<fs::path> places;
  if (!environment.executable_directory.empty()) {
    places.push_back(environment.executable_directory / ".." / "share" / "deepinfer" / "models");
  }
  if (environment.package_directory) places.push_back(*environment.package_directory / "models");
  if (const auto package = value_of(environment, "DEEPINFER_PACKAGE_DIR")) {
    places.push_back(fs::path(*package) / "models");
  }
  if (!environment.source_models_directory.empty()) {
    places.push_back(environment.source_models_directory);
  }
  std::string searched;
  for (const fs::path& place : places) {
    const fs::path directory = (place / kBundledName).lexically_normal();
    if (fs::exists(directory / "config.json")) return directory;
    searched += (searched.empty() ? "" : ", ") + directory.string();
  }
  fail_checkpoint("the bundled checkpoint 'tiny' isn't installed; searched " +
                  (searched.empty() ? "nowhere" : searched));
}

LookupResult find_named(const std::string& name, const LookupEnvironment& environment) {
  const fs::path path = expand_home(name, environment);
  if (fs::is_directory(path)) {
    return ModelLocation{path, ModelSource::kPath, "using the checkpoint in " + path.string()};
  }
  if (fs::exists(path)) {
    fail_checkpoint(name + ": is not a directory, expected a checkpoint directory");
  }
  if (name == kBundledName) {
    const fs::path directory = find_bundled(environment);
    return ModelLocation{directory, ModelSource::kBundled,
                         "using the bundled checkpoint 'tiny' in " + directory.string()};
  }
  const auto hub = parse_hub_name(name);
  if (!hub) {
    fail_checkpoint(name +
                    ": no such directory; expected a checkpoint directory, 'tiny', or a "
                    "Hugging Face name ORG/NAME[@REVISION]");
  }
  const CacheState state = look_in_cache(*hub, environment);
  if (state.reason.empty()) {
    return ModelLocation{
        state.snapshot, ModelSource::kHubCache,
        "using " + name + " from the Hugging Face cache, " + state.snapshot.string()};
  }
  std::string command = "hf download " + hub->repository;
  if (hub->revision != "main") command += " --revision " + hub->revision;
  return DownloadNeeded{hub->repository, hub->revision, state.reason, command};
}

LookupResult find_default(const LookupEnvironment& environment) {
  constexpr const char* kVariable = "DEEPINFER_HF_MODEL_DIR";
  if (const auto value = value_of(environment, kVariable)) {
    const fs::path directory = expand_home(*value, environment);
    if (!fs::is_directory(directory)) {
      fail_checkpoint(std::string(kVariable) + ": found " + *value +
                      ", expected an existing checkpoint directory");
    }
    return ModelLocation{directory, ModelSource::kModelDirVariable,
                         "using the checkpoint in " + directory.string() + " (" + kVariable + ")"};
  }
  const HubName hub{std::string(kDefaultRepository), "main"};
  const CacheState state = look_in_cache(hub, environment);
  if (state.reason.empty()) {
    return ModelLocation{
        state.snapshot, ModelSource::kDefaultInCache,
        "using " + hub.repository + " from the Hugging Face cache, " + state.snapshot.string()};
  }
  const fs::path directory = find_bundled(environment);
  return ModelLocation{directory, ModelSource::kBundledFallback,
                       "using the small bundled checkpoint 'tiny': no model was named, and for " +
                           hub.repository + " " + state.reason};
}

bool is_incomplete(const fs::directory_entry& entry) {
  return entry.path().extension() == ".incomplete";
}

}  // namespace

LookupEnvironment LookupEnvironment::of_process() {
  LookupEnvironment environment;
  environment.variable = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  std::error_code ignored;
  environment.executable_directory = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  environment.source_models_directory = DEEPINFER_SOURCE_MODELS_DIR;
  return environment;
}

LookupResult find_model(const std::optional<std::string>& name,
                        const LookupEnvironment& environment) {
  return name ? find_named(*name, environment) : find_default(environment);
}

fs::path hub_cache_directory(const LookupEnvironment& environment) {
  if (const auto cache = value_of(environment, "HF_HUB_CACHE")) {
    return expand_home(*cache, environment);
  }
  if (const auto home = value_of(environment, "HF_HOME")) {
    return expand_home(*home, environment) / "hub";
  }
  if (const auto cache = value_of(environment, "XDG_CACHE_HOME")) {
    return expand_home(*cache, environment) / "huggingface" / "hub";
  }
  if (const auto home = value_of(environment, "HOME")) {
    return fs::path(*home) / ".cache" / "huggingface" / "hub";
  }
  return {};
}

bool hub_offline(const LookupEnvironment& environment) {
  auto value = value_of(environment, "HF_HUB_OFFLINE");
  if (!value) return false;
  std::transform(value->begin(), value->end(), value->begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  // The words that huggingface_hub takes for true.
  return *value == "1" || *value == "ON" || *value == "YES" || *value == "TRUE";
}

std::vector<std::string> missing_files(const fs::path& directory) {
  std::vector<std::string> missing;
  for (const char* file : {"config.json", "tokenizer.json"}) {
    if (!fs::exists(directory / file)) missing.push_back(std::string(file) + " is missing");
  }
  try {
    for (const fs::path& shard : expected_shards(directory)) {
      if (!fs::exists(shard)) missing.push_back(shard.filename().string() + " is missing");
    }
  } catch (const Error& error) {
    missing.emplace_back(error.what());
  }
  return missing;
}

int count_incomplete_downloads(const fs::path& directory) {
  std::vector<fs::path> places{directory / ".cache" / "huggingface" / "download"};
  // In the cache layout, snapshots/COMMIT/ holds links to blobs/.
  if (directory.parent_path().filename() == "snapshots") {
    places.push_back(directory.parent_path().parent_path() / "blobs");
  }
  int count = 0;
  for (const fs::path& place : places) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(place, ignored)) {
      count += is_incomplete(entry) ? 1 : 0;
    }
  }
  return count;
}

}  // namespace deepinfer
