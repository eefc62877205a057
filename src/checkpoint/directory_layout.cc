#include "checkpoint/directory_layout.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "checkpoint/json_util.h"
#include "checkpoint/lookup.h"

namespace deepinfer {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr std::string_view kSingleFile = "model.safetensors";

/// The index file, or its stand-in for a directory with one file.
struct ShardIndex {
  std::vector<std::string> files;  ///< sorted
  /// Stored name to position in `files`; empty without an index file.
  std::optional<std::unordered_map<std::string, int>> weight_map;
  std::optional<std::int64_t> total_size;
};

void check_file_name(const std::string& name, const std::string& origin, const std::string& key) {
  // A name with a separator could point outside the directory.
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    fail_checkpoint(origin + ": weight_map." + key + ": found " + describe(name) +
                    ", expected the name of a file in the same directory");
  }
}

ShardIndex read_index_file(const fs::path& path) {
  const std::string origin = path.string();
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || text.fail()) fail_checkpoint(origin + ": can't be read");
  const json document = parse_strict_json(text.view(), origin);
  JsonSection section(document, "", origin);
  const json& weight_map = section.require("weight_map", "an object of tensor and file names");
  if (!weight_map.is_object() || weight_map.empty()) {
    section.fail("weight_map", describe(weight_map), "an object of tensor and file names");
  }
  ShardIndex index;
  std::map<std::string, int> numbers;
  for (const auto& [name, shard] : weight_map.items()) {
    if (!shard.is_string()) section.fail("weight_map." + name, describe(shard), "a file name");
    const auto file_name = shard.get<std::string>();
    check_file_name(file_name, origin, name);
    numbers.emplace(file_name, 0);
  }
  for (auto& [name, number] : numbers) {
    number = static_cast<int>(index.files.size());
    index.files.push_back(name);
  }
  auto& places = index.weight_map.emplace();
  places.reserve(weight_map.size());
  for (const auto& [name, shard] : weight_map.items()) {
    places.emplace(name, numbers.at(shard.get<std::string>()));
  }
  if (const json* metadata = section.find("metadata");
      metadata != nullptr && metadata->is_object() && metadata->contains("total_size") &&
      (*metadata)["total_size"].is_number_integer()) {
    index.total_size = (*metadata)["total_size"].get<std::int64_t>();
  }
  return index;
}

ShardIndex read_index(const fs::path& directory) {
  if (fs::exists(directory / kIndexFile)) return read_index_file(directory / kIndexFile);
  if (fs::exists(directory / kSingleFile)) return {{std::string(kSingleFile)}, {}, {}};
  std::string message = directory.string() + ": found neither " + std::string(kIndexFile) +
                        " nor " + std::string(kSingleFile) + ", expected one of them";
  if (const int partial = count_incomplete_downloads(directory); partial > 0) {
    message += " (" + std::to_string(partial) + " unfinished downloads, *.incomplete, lie there)";
  }
  fail_checkpoint(message);
}

bool is_old_norm(std::string_view name) {
  return name.ends_with("hc_attn_norm.weight") || name.ends_with("hc_ffn_norm.weight") ||
         name.ends_with("hc_head_norm.weight");
}

bool dtype_matches(const std::string& tag, DType expected) {
  if (tag == to_string(expected)) return true;
  // Tools without the newer tags write bytes (model.md 4.1).
  return tag == "U8" && (expected == DType::kI8 || expected == DType::kF8E8M0);
}

bool shape_matches(const std::vector<std::int64_t>& found, const Shape& expected) {
  if (found.size() != static_cast<std::size_t>(expected.rank())) return false;
  for (int axis = 0; axis < expected.rank(); ++axis) {
    if (found[static_cast<std::size_t>(axis)] != expected[axis]) return false;
  }
  return true;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

/// One pass over a directory.
class LayoutReader {
 public:
  LayoutReader(const fs::path& directory, const ModelConfig& config,
               const std::vector<TensorSpec>& catalogue)
      : directory_(directory),
        config_(config),
        catalogue_(catalogue),
        index_(read_index(directory)) {}

  DirectoryLayout read() {
    layout_.declared_bytes = index_.total_size;
    layout_.places.resize(catalogue_.size());
    read_headers();
    check_index_names();
    collect_tensors();
    compare();
    check_engram_pairs();
    // Tensors stay in the order of the model; what comes out of hash maps gets a fixed order.
    std::stable_sort(layout_.problems.begin(), layout_.problems.end(),
                     [](const Problem& a, const Problem& b) {
                       if (a.kind != b.kind) return a.kind < b.kind;
                       return a.kind == ProblemKind::kIndex && a.text < b.text;
                     });
    return std::move(layout_);
  }

 private:
  struct Stored {
    int shard;
    const SafetensorsEntry* entry;
  };

  void add(ProblemKind kind, std::string text) {
    layout_.problems.push_back({kind, std::move(text)});
  }

  std::string shard_text(int shard) const {
    return layout_.shards[static_cast<std::size_t>(shard)].path.string();
  }

  void read_headers() {
    const int partial = count_incomplete_downloads(directory_);
    headers_.resize(index_.files.size());
    for (std::size_t i = 0; i < index_.files.size(); ++i) {
      Shard shard;
      shard.path = directory_ / index_.files[i];
      // exists() follows links: a dangling one, as a broken download leaves it, is a missing file.
      if (!fs::exists(shard.path)) {
        add(ProblemKind::kMissingShard,
            shard.path.string() +
                (partial > 0 ? ": is missing, its download is unfinished" : ": is missing"));
      } else {
        try {
          headers_[i] = read_safetensors_header(shard.path);
          shard.file_bytes = headers_[i].data_start + headers_[i].data_bytes;
          shard.readable = true;
        } catch (const Error& error) {
          add(ProblemKind::kBadShard, error.what());
        }
      }
      layout_.shards.push_back(std::move(shard));
    }
  }

  /// Both forms of one name in the index are refused even if only one of them exists in a shard.
  void check_index_names() {
    if (!index_.weight_map) return;
    for (const auto& [name, shard] : *index_.weight_map) {
      if (canonical_name(name) != name &&
          index_.weight_map->contains(std::string(canonical_name(name)))) {
        add(ProblemKind::kIndex, (directory_ / kIndexFile).string() + ": found both " + name +
                                     " and " + std::string(canonical_name(name)) +
                                     ", expected one of them");
      }
    }
  }

  void collect_tensors() {
    for (std::size_t i = 0; i < headers_.size(); ++i) {
      const int shard = static_cast<int>(i);
      for (const SafetensorsEntry& entry : headers_[i].entries) {
        ++layout_.tensors;
        if (!place_agrees_with_index(entry.name, shard)) continue;
        const auto [where, added] =
            stored_.emplace(canonical_name(entry.name), Stored{shard, &entry});
        if (!added) {
          add(ProblemKind::kIndex, shard_text(shard) + ": tensor " + entry.name +
                                       ": is the same as " + where->second.entry->name + " of " +
                                       shard_text(where->second.shard) + ", expected one of them");
        }
      }
    }
    if (!index_.weight_map) return;
    for (const auto& [name, shard] : *index_.weight_map) {
      if (!layout_.shards[static_cast<std::size_t>(shard)].readable) continue;
      const auto found = stored_.find(canonical_name(name));
      if (found == stored_.end()) {
        add(ProblemKind::kIndex, (directory_ / kIndexFile).string() + ": tensor " + name +
                                     ": isn't in " + shard_text(shard) +
                                     ", where the index says it is");
      }
    }
  }

  bool place_agrees_with_index(const std::string& name, int shard) {
    if (!index_.weight_map) return true;
    const auto listed = index_.weight_map->find(name);
    if (listed == index_.weight_map->end()) {
      // Reported as unexpected too if the catalogue lacks it; here the index is what's wrong.
      if (is_ignored_tensor(config_, canonical_name(name))) return true;
      if (!in_catalogue(canonical_name(name))) return true;
      add(ProblemKind::kIndex, shard_text(shard) + ": tensor " + name + ": isn't in the index");
      return false;
    }
    if (listed->second != shard) {
      add(ProblemKind::kIndex, shard_text(shard) + ": tensor " + name +
                                   ": the index says it is in " + shard_text(listed->second));
      return false;
    }
    return true;
  }

  bool in_catalogue(std::string_view name) {
    if (names_.empty()) {
      names_.reserve(catalogue_.size());
      for (std::size_t i = 0; i < catalogue_.size(); ++i) names_.emplace(catalogue_[i].name, i);
    }
    return names_.contains(name);
  }

  void compare() {
    for (std::size_t i = 0; i < catalogue_.size(); ++i) {
      const TensorSpec& spec = catalogue_[i];
      const auto found = stored_.find(spec.name);
      if (found == stored_.end()) {
        add(ProblemKind::kMissing, spec.name + " (" + std::string(to_string(spec.dtype)) + " " +
                                       to_string(spec.shape) + ")");
        continue;
      }
      const auto [shard, entry] = found->second;
      if (!dtype_matches(entry->dtype_tag, spec.dtype) ||
          !shape_matches(entry->shape, spec.shape)) {
        add(ProblemKind::kMismatch, shard_text(shard) + ": tensor " + entry->name + ": found " +
                                        entry->dtype_tag + " " + shape_text(entry->shape) +
                                        ", expected " + std::string(to_string(spec.dtype)) + " " +
                                        to_string(spec.shape));
        continue;
      }
      layout_.places[i] = {true, shard,
                           headers_[static_cast<std::size_t>(shard)].data_start + entry->begin};
    }
    std::vector<std::string> unexpected;
    for (const auto& [name, stored] : stored_) {
      if (in_catalogue(name)) continue;
      if (is_ignored_tensor(config_, name)) {
        ++layout_.ignored;
      } else if (is_old_norm(name)) {
        add(ProblemKind::kUnexpected,
            shard_text(stored.shard) + ": tensor " + stored.entry->name +
                ": an old layout, expected the norm to be folded into hc_*_fn");
      } else {
        unexpected.push_back(shard_text(stored.shard) + ": tensor " + stored.entry->name);
      }
    }
    std::sort(unexpected.begin(), unexpected.end());
    for (std::string& text : unexpected) add(ProblemKind::kUnexpected, std::move(text));
  }

  /// A reader of rows opens one file per table (model.md 4.2).
  void check_engram_pairs() {
    for (std::size_t i = 0; i + 1 < catalogue_.size(); ++i) {
      if (catalogue_[i].part != Part::kEngramTable || catalogue_[i].storage != Storage::kFp8) {
        continue;
      }
      const TensorPlace& weight = layout_.places[i];
      const TensorPlace& scale = layout_.places[i + 1];
      if (weight.found && scale.found && weight.shard != scale.shard) {
        add(ProblemKind::kIndex, shard_text(scale.shard) + ": tensor " + catalogue_[i + 1].name +
                                     ": expected in the same file as its weight, " +
                                     shard_text(weight.shard));
      }
    }
  }

  const fs::path& directory_;
  const ModelConfig& config_;
  const std::vector<TensorSpec>& catalogue_;
  ShardIndex index_;
  std::vector<SafetensorsHeader> headers_;
  std::unordered_map<std::string_view, Stored> stored_;      ///< by canonical name
  std::unordered_map<std::string_view, std::size_t> names_;  ///< of the catalogue
  DirectoryLayout layout_;
};

}  // namespace

std::string_view to_string(ProblemKind kind) {
  constexpr std::array<std::string_view, kProblemKindCount> kNames{
      "missing shards",  "damaged shards",     "index errors",
      "missing tensors", "unexpected tensors", "mis-shaped tensors"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view canonical_name(std::string_view stored) {
  constexpr std::string_view kPrefix = "model.";
  if (stored.starts_with(kPrefix)) stored.remove_prefix(kPrefix.size());
  return stored;
}

std::vector<fs::path> expected_shards(const fs::path& directory) {
  std::vector<fs::path> paths;
  for (const std::string& file : read_index(directory).files) paths.push_back(directory / file);
  return paths;
}

DirectoryLayout read_layout(const fs::path& directory, const ModelConfig& config,
                            const std::vector<TensorSpec>& catalogue) {
  return LayoutReader(directory, config, catalogue).read();
}

}  // namespace deepinfer
