#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace deepinfer {

/// The checkpoint that a run without a model name looks for in the Hugging Face cache.
inline constexpr std::string_view kDefaultRepository = "deepseek-ai/DeepSeek-V4.1-Flash-1017";

/// What the lookup may see of the world; tests pass their own.
struct LookupEnvironment {
  /// The value of an environment variable; empty when unset.
  std::function<std::optional<std::string>(const std::string& name)> variable;
  /// Folder of the running command, to find the models installed beside it.
  std::filesystem::path executable_directory;
  /// Folder of the Python package, when the caller is the Python module.
  std::optional<std::filesystem::path> package_directory;
  /// `models/` of the source tree, for a build that wasn't installed.
  std::filesystem::path source_models_directory;

  /// The real process.
  static LookupEnvironment of_process();
};

enum class ModelSource {
  kPath,              ///< the caller named a directory
  kBundled,           ///< the caller named `tiny`
  kHubCache,          ///< the caller named a repository, and it is complete in the cache
  kModelDirVariable,  ///< DEEPINFER_HF_MODEL_DIR
  kDefaultInCache,    ///< nothing named; the default repository is complete in the cache
  kBundledFallback,   ///< nothing named and nothing found: the bundled checkpoint
};

struct ModelLocation {
  std::filesystem::path directory;
  ModelSource source = ModelSource::kPath;
  std::string sentence;  ///< for stderr: which checkpoint is used and why
};

/// A repository that the caller named and that isn't complete in the cache.
struct DownloadNeeded {
  std::string repository;  ///< ORG/NAME
  std::string revision;    ///< `main` unless given
  std::string reason;      ///< what is missing from the cache
  std::string command;     ///< the `hf download ...` line that would fetch it
};

using LookupResult = std::variant<ModelLocation, DownloadNeeded>;

/// Resolves a model name (interface.md 4): an existing directory, then `tiny`, then
/// `org/name[@revision]` in the Hugging Face cache. Without a name: DEEPINFER_HF_MODEL_DIR, the
/// default checkpoint if it is complete in the cache, else `tiny`; this never asks for a download.
/// Throws Error(kCheckpoint) when a name can't be any of these or the place it names doesn't exist.
LookupResult find_model(const std::optional<std::string>& name,
                        const LookupEnvironment& environment);

/// `$HF_HUB_CACHE`, else `$HF_HOME/hub`, else `$XDG_CACHE_HOME/huggingface/hub`, else
/// `~/.cache/huggingface/hub`. Empty when not even HOME is set.
std::filesystem::path hub_cache_directory(const LookupEnvironment& environment);

/// Whether HF_HUB_OFFLINE forbids downloads.
bool hub_offline(const LookupEnvironment& environment);

/// What keeps a directory from being a complete checkpoint: missing files, shards that the index
/// names and that aren't there (a dangling link counts as missing). Empty when complete. Reads no
/// weights and checks no shapes.
std::vector<std::string> missing_files(const std::filesystem::path& directory);

/// `*.incomplete` files that huggingface_hub leaves while it downloads into this directory or into
/// the cache it is a snapshot of.
int count_incomplete_downloads(const std::filesystem::path& directory);

}  // namespace deepinfer
