#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/catalogue.h"
#include "checkpoint/config.h"
#include "checkpoint/directory_layout.h"

namespace deepinfer {

/// What a part of the model amounts to, of the tensors that were found.
struct PartSummary {
  std::int64_t tensors = 0;
  std::int64_t parameters = 0;  ///< trained values; scales count none
  std::int64_t bytes = 0;       ///< scales included
};

struct InspectReport {
  std::filesystem::path directory;
  ModelConfig config;
  std::array<PartSummary, kPartCount> parts;  ///< indexed by Part
  PartSummary total;
  std::int64_t expected_tensors = 0;
  std::int64_t expected_bytes = 0;
  DirectoryLayout layout;  ///< shards and problems

  bool complete() const { return layout.problems.empty(); }
};

/// Looks into a checkpoint directory from its headers alone: no weight is read, so that 400 GB take
/// no longer than the 10 MB of headers. Damaged or missing shards and wrong tensors are listed in
/// the report. Throws Error(kCheckpoint) when `config.json` or the index can't be used.
InspectReport inspect_checkpoint(const std::filesystem::path& directory);

/// The report for people, and as JSON with `schema_version` 1 (docs/json.md). Both show at most
/// 100 problems of a kind, with the count of all.
std::string inspect_text(const InspectReport& report);
std::string inspect_json(const InspectReport& report);

}  // namespace deepinfer
