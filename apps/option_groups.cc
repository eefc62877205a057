#include "option_groups.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/log.h"
#include "json_input.h"

namespace deepinfer::cli {
namespace {

constexpr double kMaxInt = 2147483647.0;

// Keys of generation_config.json that are sampling defaults, and the option each one sets.
struct GenerationKey {
  const char* key;
  const char* option;
};
constexpr GenerationKey kGenerationKeys[] = {
    {"temperature", "temperature"},
    {"top_p", "top-p"},
    {"top_k", "top-k"},
    {"min_p", "min-p"},
    {"repetition_penalty", "repetition-penalty"},
    {"max_new_tokens", "max-tokens"},
};

}  // namespace

OptionGroup general_options() {
  return {"General",
          {
              {.name = "config",
               .value_name = "FILE",
               .help = "YAML or JSON file of option values; keys are option names",
               .configurable = false,
               .variable = "DEEPINFER_CONFIG"},
              {.name = "log-level",
               .kind = OptionKind::kChoice,
               .help = "what the log on stderr shows",
               .default_value = "warn",
               .choices = "debug|info|warn|error|off",
               .variable = "DEEPINFER_LOG_LEVEL"},
              {.name = "quiet",
               .aliases = "-q",
               .kind = OptionKind::kFlag,
               .help = "only errors on stderr"},
              {.name = "verbose",
               .aliases = "-v",
               .kind = OptionKind::kFlag,
               .help = "as --log-level info"},
              {.name = "progress",
               .kind = OptionKind::kChoice,
               .help = "progress on stderr; auto: when it is a terminal",
               .default_value = "auto",
               .choices = "auto|on|off"},
          }};
}

OptionGroup model_options() {
  return {
      "Model",
      {
          {.name = "model",
           .aliases = "-m",
           .value_name = "MODEL",
           .help = "a directory, `tiny` (the bundled checkpoint), or ORG/NAME[@REVISION] of the "
                   "Hugging Face hub",
           .default_note = "DEEPINFER_HF_MODEL_DIR, else the official checkpoint if the "
                           "Hugging Face cache has it, else tiny"},
          {.name = "tokenizer",
           .value_name = "DIR",
           .help = "directory with tokenizer.json",
           .default_note = "the model's"},
          {.name = "no-download",
           .kind = OptionKind::kFlag,
           .help = "never download a model, only say how to"},
      }};
}

OptionGroup engine_options() {
  return {
      "Engine",
      {
          {.name = "device",
           .kind = OptionKind::kChoice,
           .help = "where the model runs; reference: plain loops, slow",
           .default_value = "cpu",
           .choices = "cpu|reference|nvidia|cuda|ascend|auto",
           .variable = "DEEPINFER_ACCELERATOR"},
          {.name = "threads",
           .aliases = "-t",
           .kind = OptionKind::kInteger,
           .value_name = "N",
           .help = "CPU threads",
           .default_note = "physical cores",
           .minimum = 1,
           .maximum = 4096,
           .variable = "DEEPINFER_NUM_THREADS"},
          {.name = "numerics",
           .kind = OptionKind::kChoice,
           .help = "where the model rounds (docs/numerics.md)",
           .default_note = "exact+cache on a CPU",
           .choices = "exact|exact+cache|production",
           .variable = "DEEPINFER_NUMERICS"},
          {.name = "max-model-len",
           .aliases = "-c,--ctx-size",
           .value_name = "N|auto",
           .help = "tokens of prompt and answer together; auto: the checkpoint's length as far as "
                   "memory allows",
           .default_note = "4096, or the checkpoint's length if that is smaller"},
          {.name = "max-num-seqs",
           .kind = OptionKind::kInteger,
           .value_name = "N",
           .help = "sequences that run at once",
           .default_value = "64",
           .minimum = 1,
           .maximum = 1 << 20},
          {.name = "max-num-batched-tokens",
           .kind = OptionKind::kInteger,
           .value_name = "N",
           .help = "tokens of one step",
           .default_note = "2048, or --max-num-seqs if that is larger",
           .minimum = 1,
           .maximum = kMaxInt},
          {.name = "chunked-prefill",
           .kind = OptionKind::kFlag,
           .help = "cut long prompts over several steps",
           .default_value = "true",
           .negatable = true},
          {.name = "gpu-memory-utilization",
           .kind = OptionKind::kNumber,
           .value_name = "X",
           .help = "share of an accelerator's memory to use; without effect on a CPU",
           .default_value = "0.9",
           .minimum = 0,
           .maximum = 1},
      }};
}

OptionGroup sampling_options(std::string_view max_tokens_default,
                             std::string_view max_tokens_note) {
  return {"Sampling",
          {
              {.name = "max-tokens",
               .aliases = "-n",
               .kind = OptionKind::kInteger,
               .value_name = "N",
               .help = "longest answer in tokens",
               .default_value = max_tokens_default,
               .default_note = max_tokens_note,
               .minimum = 1,
               .maximum = kMaxInt},
              {.name = "temperature",
               .aliases = "--temp",
               .kind = OptionKind::kNumber,
               .value_name = "X",
               .help = "0 always takes the most likely token",
               .default_value = "1"},
              {.name = "top-p",
               .kind = OptionKind::kNumber,
               .value_name = "X",
               .help = "draw from the most likely tokens that make up this probability",
               .default_value = "1"},
              {.name = "top-k",
               .kind = OptionKind::kInteger,
               .value_name = "N",
               .help = "draw from the N most likely tokens; -1: all",
               .default_value = "-1"},
              {.name = "min-p",
               .kind = OptionKind::kNumber,
               .value_name = "X",
               .help = "drop tokens less likely than X times the most likely one",
               .default_value = "0"},
              {.name = "repetition-penalty",
               .kind = OptionKind::kNumber,
               .value_name = "X",
               .help = "above 1 makes tokens of prompt and answer less likely",
               .default_value = "1"},
              {.name = "presence-penalty",
               .kind = OptionKind::kNumber,
               .value_name = "X",
               .help = "subtracted once from the logit of a token of the answer",
               .default_value = "0"},
              {.name = "frequency-penalty",
               .kind = OptionKind::kNumber,
               .value_name = "X",
               .help = "subtracted for each time a token stands in the answer",
               .default_value = "0"},
              {.name = "seed",
               .aliases = "--seq-seed",
               .kind = OptionKind::kSeed,
               .value_name = "N",
               .help = "the same seed gives the same answer",
               .default_note = "random"},
              {.name = "num-samples",
               .kind = OptionKind::kInteger,
               .value_name = "N",
               .help = "answers a prompt; sample i uses seed + i",
               .default_value = "1",
               .minimum = 1,
               .maximum = 128},
              {.name = "stop",
               .value_name = "TEXT",
               .help = "end the answer before this text",
               .repeatable = true,
               .utf8 = true},
              {.name = "ignore-eos",
               .kind = OptionKind::kFlag,
               .help = "go on after an end-of-sentence token"},
              {.name = "min-tokens",
               .kind = OptionKind::kInteger,
               .value_name = "N",
               .help = "no end before this many tokens",
               .default_value = "0",
               .minimum = 0,
               .maximum = kMaxInt},
              {.name = "logprobs",
               .kind = OptionKind::kInteger,
               .value_name = "K",
               .help = "with --json: log-probabilities of each token and the K most likely",
               .minimum = 0,
               .maximum = 1000},
              {.name = "generation-config",
               .value_name = "auto|none|DIR",
               .help = "where generation_config.json gives defaults for this group",
               .default_value = "auto"},
          }};
}

OptionGroup text_input_options(std::string_view what) {
  return {"Input",
          {
              {.name = "prompt",
               .aliases = "-p",
               .value_name = "TEXT",
               .help = what,
               .repeatable = true,
               .configurable = false},
              {.name = "file",
               .aliases = "-f",
               .value_name = "FILE",
               .help = "a file, read whole; `-` is stdin",
               .default_note = "stdin when it isn't a terminal",
               .repeatable = true,
               .configurable = false},
              {.name = "escape",
               .kind = OptionKind::kFlag,
               .help = "turn \\n, \\t and \\\\ of --prompt into characters"},
          }};
}

OptionSpec bos_option() {
  return {.name = "bos",
          .kind = OptionKind::kFlag,
          .help = "put the begin-of-sentence token in front of texts",
          .default_note = "if the tokenizer has one",
          .negatable = true};
}

bool adds_bos(const Options& options, const EngineInfo& info) {
  return options.has("bos") ? options.flag("bos") : info.bos_token_id.has_value();
}

void apply_log_level(const Options& options) {
  LogLevel level = parse_log_level(options.text("log-level"), options.find("log-level")->place);
  const bool explicit_level = options.find("log-level")->origin == Origin::kCommandLine;
  if (!explicit_level && options.flag("verbose")) level = LogLevel::kInfo;
  if (!explicit_level && options.flag("quiet")) level = LogLevel::kError;
  set_log_level(level);
}

bool wants_progress(const Options& options) {
  const std::string& progress = options.text("progress");
  if (progress == "auto") return !options.flag("quiet") && isatty(STDERR_FILENO) == 1;
  return progress == "on";
}

EngineOptions to_engine_options(const Options& options, const std::string& model_directory) {
  EngineOptions engine;
  engine.model = model_directory;
  engine.tokenizer = options.optional_text("tokenizer");
  engine.device = options.text("device");
  engine.numerics = options.optional_text("numerics");
  if (options.has("threads")) engine.num_threads = static_cast<int>(options.integer("threads"));
  if (options.has("max-model-len")) {
    const Setting& setting = *options.find("max-model-len");
    const std::string& text = setting.values.front();
    if (text == "auto") {
      engine.auto_max_model_len = true;
    } else {
      std::size_t used = 0;
      long value = 0;
      try {
        value = std::stol(text, &used);
      } catch (const std::exception&) {
        used = 0;
      }
      if (used == 0 || used != text.size() || value < 1 || value > 2147483647L) {
        fail_argument(setting.place + ": found '" + text +
                      "', expected a positive integer or auto");
      }
      engine.max_model_len = static_cast<int>(value);
    }
  }
  engine.max_num_seqs = static_cast<int>(options.integer("max-num-seqs"));
  if (options.has("max-num-batched-tokens")) {
    engine.max_num_batched_tokens = static_cast<int>(options.integer("max-num-batched-tokens"));
  }
  engine.chunked_prefill = options.flag("chunked-prefill");
  return engine;
}

GivenValues generation_config_values(const Options& options, const std::string& model_directory) {
  const std::string& choice = options.text("generation-config");
  if (choice == "none") return {};
  const std::filesystem::path directory = choice == "auto" ? model_directory : choice;
  const std::filesystem::path path = directory / "generation_config.json";
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    if (choice == "auto") return {};
    fail_argument(options.find("generation-config")->place + ": " + path.string() +
                  " can't be read");
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const Json json = parse_json(text);
  if (!json.is_object()) fail_checkpoint(path.string() + ": not a JSON object");

  GivenValues values;
  for (const auto& [key, option] : kGenerationKeys) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null()) continue;
    if (!found->is_number()) {
      fail_checkpoint(path.string() + ": " + key + ": found " + found->dump() +
                      ", expected a number");
    }
    std::string value = found->dump();
    if (std::string_view(option) == "top-k" && value == "0") value = "-1";  // their word for off
    values.insert_or_assign(
        option, Setting{{value}, Origin::kGenerationConfig, path.string() + ": " + key});
  }
  const auto do_sample = json.find("do_sample");
  if (do_sample != json.end() && do_sample->is_boolean() && !do_sample->get<bool>()) {
    values.insert_or_assign(
        "temperature", Setting{{"0"}, Origin::kGenerationConfig, path.string() + ": do_sample"});
  }
  return values;
}

SamplingParams to_sampling_params(const Options& options) {
  SamplingParams params;
  params.max_tokens = options.integer("max-tokens");
  params.temperature = options.number("temperature");
  params.top_p = options.number("top-p");
  params.top_k = options.integer("top-k");
  params.min_p = options.number("min-p");
  params.repetition_penalty = options.number("repetition-penalty");
  params.presence_penalty = options.number("presence-penalty");
  params.frequency_penalty = options.number("frequency-penalty");
  if (options.has("seed")) params.seq_seed = options.seed("seed");
  params.n = static_cast<int>(options.integer("num-samples"));
  if (options.has("stop")) params.stop = options.texts("stop");
  params.ignore_eos = options.flag("ignore-eos");
  params.min_tokens = options.integer("min-tokens");
  if (options.has("logprobs")) params.top_logprobs = static_cast<int>(options.integer("logprobs"));
  params.validate();
  return params;
}

}  // namespace deepinfer::cli
