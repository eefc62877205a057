#pragma once

#include <string>

#include "deepinfer/llm.h"
#include "options.h"

namespace deepinfer::cli {

/// --stats-json.
OptionSpec stats_file_option();

/// What a run amounted to, written where --stats-json says; nothing without that option.
class StatsFile {
 public:
  /// Throws Error(kIo) when the file can't be written: before the run, not after it.
  explicit StatsFile(const Options& options);

  /// Throws Error(kIo).
  void write(const LLM& llm, std::size_t requests, std::size_t failed, double seconds) const;

 private:
  std::string path_;
};

}  // namespace deepinfer::cli
