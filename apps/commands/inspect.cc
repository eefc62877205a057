#include "checkpoint/inspect.h"

#include "base/error.h"
#include "base/mmap_file.h"
#include "checkpoint/checkpoint.h"
#include "commands/commands.h"
#include "json_output.h"
#include "model_choice.h"
#include "option_groups.h"
#include "output.h"
#include "sha256.h"
#include "text/tokenizer.h"

namespace deepinfer::cli {
namespace {

// What `verify` finds beyond the report: broken scales, a tokenizer that can't be used. Empty when
// all is well.
std::string verify(const InspectReport& report) {
  try {
    const Checkpoint checkpoint = Checkpoint::open(report.directory, {ScaleCheck::kAll});
    const Tokenizer tokenizer =
        Tokenizer::load(checkpoint.tokenizer_directory(), report.config.tokenizer_compatibility);
    if (tokenizer.vocab_size() > report.config.vocab_size) {
      return "tokenizer.json has " + std::to_string(tokenizer.vocab_size()) +
             " ids, config.json says " + std::to_string(report.config.vocab_size);
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

int run(Options& options, Output& output) {
  if (!options.arguments().empty()) {
    if (options.has("model")) fail_argument("the model is given twice");
    options.add_lower_layer(
        {{"model", Setting{options.arguments(), Origin::kCommandLine, "MODEL"}}});
  }
  const InspectReport report = inspect_checkpoint(find_model_directory(options));
  const bool json = options.flag("json");
  const bool wants_verify = options.flag("verify");
  const bool wants_hash = options.flag("hash");
  const std::string fault = wants_verify && report.complete() ? verify(report) : "";

  Json document = json ? Json::parse(inspect_json(report)) : Json();
  if (!json) output.write(inspect_text(report));
  if (wants_verify && json) document["fault"] = fault.empty() ? Json() : Json(fault);
  if (wants_verify && !json && report.complete()) {
    output.line(fault.empty() ? "verified    scales and tokenizer" : "fault       " + fault);
  }
  if (wants_hash && json) document["sha256"] = Json::object();
  if (wants_hash && !json) output.line("\nSHA-256");
  for (const Shard& shard : report.layout.shards) {
    if (!wants_hash || !shard.readable) continue;
    const std::string hash = sha256_hex(MmapFile(shard.path).bytes());
    const std::string name = shard.path.filename().string();
    if (json) {
      document["sha256"][name] = hash;
    } else {
      output.line("  " + hash + "  " + name);
      output.flush();
    }
  }
  if (json) output.line(dump(document));
  output.flush();
  if (!fault.empty()) tell(fault);
  return report.complete() && fault.empty() ? 0 : kExitCheckpoint;
}

}  // namespace

Command inspect_command() {
  return {.name = "inspect",
          .summary = "What a checkpoint holds and what is wrong with it, from headers alone.",
          .description =
              "  deepinfer inspect tiny\n  deepinfer inspect DIR --hash --json\n\n"
              "Exit code 3 when a tensor or shard is missing, damaged or unexpected.",
          .argument = {"MODEL", "the checkpoint, as with --model", 1},
          .groups = {{"Inspection",
                      {{.name = "verify",
                        .kind = OptionKind::kFlag,
                        .help = "also read every scale and the tokenizer"},
                       {.name = "hash",
                        .kind = OptionKind::kFlag,
                        .help = "also read every byte: the SHA-256 of each shard"},
                       {.name = "json",
                        .kind = OptionKind::kFlag,
                        .help = "a JSON object (docs/json.md)"}}},
                     model_options(),
                     general_options()},
          .run = run};
}

}  // namespace deepinfer::cli
