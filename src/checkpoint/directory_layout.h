#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/catalogue.h"
#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"

// What lies in a checkpoint directory, from headers alone: shared by Checkpoint (which refuses any
// problem) and inspect (which lists them).

namespace deepinfer {

enum class ProblemKind : std::uint8_t {
  kMissingShard,  ///< a file that the index names isn't there
  kBadShard,      ///< a file whose header is damaged
  kIndex,         ///< index and shards contradict each other, or names are ambiguous
  kMissing,       ///< a tensor of the catalogue that no shard holds
  kUnexpected,    ///< a tensor that the catalogue lacks
  kMismatch,      ///< wrong shape or dtype
};
inline constexpr int kProblemKindCount = static_cast<int>(ProblemKind::kMismatch) + 1;
/// `missing shards`, `unexpected tensors`, ...
std::string_view to_string(ProblemKind kind);

struct Problem {
  ProblemKind kind = ProblemKind::kIndex;
  std::string text;  ///< names the file or tensor, what was found and what was expected
};

/// Where a tensor of the catalogue lies.
struct TensorPlace {
  bool found = false;
  int shard = -1;
  std::uint64_t offset = 0;  ///< from the start of the shard's file
};

struct Shard {
  std::filesystem::path path;
  std::uint64_t file_bytes = 0;
  bool readable = false;
};

struct DirectoryLayout {
  std::vector<Shard> shards;
  std::vector<TensorPlace> places;             ///< one per catalogue entry
  std::vector<Problem> problems;               ///< in the order of ProblemKind
  std::int64_t tensors = 0;                    ///< in all readable shards
  std::int64_t ignored = 0;                    ///< copies that no one reads (is_ignored_tensor)
  std::optional<std::int64_t> declared_bytes;  ///< metadata.total_size of the index
};

/// The name without the leading `model.` that files may carry.
std::string_view canonical_name(std::string_view stored);

/// The shards a directory should have, whether they exist or not, in file name order. Throws
/// Error(kCheckpoint) when there is neither `model.safetensors.index.json` nor `model.safetensors`,
/// or the index can't be read.
std::vector<std::filesystem::path> expected_shards(const std::filesystem::path& directory);

/// Reads index and headers and compares them with `catalogue`. Everything wrong with shards and
/// tensors becomes a problem; throws only as `expected_shards` does.
DirectoryLayout read_layout(const std::filesystem::path& directory, const ModelConfig& config,
                            const std::vector<TensorSpec>& catalogue);

}  // namespace deepinfer
