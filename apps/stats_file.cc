#include "stats_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "json_output.h"

namespace deepinfer::cli {

OptionSpec stats_file_option() {
  return {.name = "stats-json",
          .value_name = "FILE",
          .help = "write counts, times and tokens/s of the run as JSON"};
}

StatsFile::StatsFile(const Options& options)
    : path_(options.optional_text("stats-json").value_or("")) {
  if (path_.empty()) return;
  if (!std::ofstream(path_, std::ios::app)) {
    fail_io("--stats-json " + path_ + ": can't be written: " + std::strerror(errno));
  }
}

void StatsFile::write(const LLM& llm, std::size_t requests, std::size_t failed,
                      double seconds) const {
  if (path_.empty()) return;
  const EngineInfo& info = llm.info();
  const EngineStats stats = llm.stats();
  const auto generated = static_cast<double>(stats.generated_tokens);
  const Json json = {
      {"schema_version", kSchemaVersion},
      {"model", info.model_path},
      {"device", info.device},
      {"numerics", info.numerics},
      {"threads", info.num_threads},
      {"requests", requests},
      {"failed", failed},
      {"prompt_tokens", stats.prompt_tokens},
      {"generated_tokens", stats.generated_tokens},
      {"steps", stats.steps},
      {"preemptions", stats.preemptions},
      {"seconds", seconds},
      {"forward_seconds", stats.forward_seconds},
      {"sample_seconds", stats.sample_seconds},
      {"generated_tokens_per_second", seconds > 0 ? generated / seconds : 0.0},
  };
  std::ofstream file(path_, std::ios::binary | std::ios::trunc);
  file << dump(json) << '\n';
  file.close();
  if (!file) fail_io("--stats-json " + path_ + ": can't be written: " + std::strerror(errno));
}

}  // namespace deepinfer::cli
