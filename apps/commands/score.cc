#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "commands/commands.h"
#include "inputs.h"
#include "interrupt.h"
#include "json_output.h"
#include "model_choice.h"
#include "option_groups.h"
#include "output.h"
#include "token_ids.h"

namespace deepinfer::cli {
namespace {

Json score_value(const ScoreResult& result) {
  Json logprobs = Json::array();
  for (const float logprob : result.token_logprobs) logprobs.push_back(float_value(logprob));
  Json top = Json::array();
  for (std::size_t i = 0; i < result.token_logprobs.size(); ++i) {
    const bool known = i < result.top_logprobs.size() && !result.top_logprobs[i].empty();
    top.push_back(known ? top_logprobs_value(result.top_logprobs[i]) : Json());
  }
  Json json = {{"schema_version", kSchemaVersion}, {"index", result.index},
               {"token_ids", result.token_ids},    {"token_logprobs", std::move(logprobs)},
               {"top_logprobs", std::move(top)},   {"error", nullptr}};
  if (is_failure(result)) {
    json["error"] = {{"finish_reason", result.finish_reason}, {"message", result.error}};
  }
  return json;
}

std::string score_line(const ScoreResult& result) {
  const std::size_t tokens = result.token_ids.size();
  const std::size_t scored = tokens > 1 ? tokens - 1 : 0;
  const double total = result.total_logprob();
  const double loss = scored > 0 ? -total / static_cast<double>(scored) : 0.0;
  return fmt::format("tokens {}  logprob {:.4f}  loss {:.6f} nats/token  perplexity {:.4f}", tokens,
                     total, loss, std::exp(loss));
}

std::vector<Prompt> read_prompts(const Options& options) {
  std::vector<Prompt> prompts;
  if (!options.has("ids")) {
    for (const std::string& path : options.arguments()) {
      prompts.emplace_back(read_input(path, "FILE"));
    }
    const bool other_text = options.has("prompt") || options.has("file");
    if (!prompts.empty() && !other_text) return prompts;
  } else if (!options.arguments().empty() || options.has("prompt") || options.has("file")) {
    fail_argument("--ids excludes texts");
  } else {
    const std::string& path = options.text("ids");
    for (auto& ids : parse_id_sequences(read_input(path, "--ids"), path)) {
      prompts.emplace_back(std::move(ids));
    }
    return prompts;
  }
  if (!options.arguments().empty()) fail_argument("FILE excludes --prompt and --file");
  for (std::string& text : read_texts(options)) prompts.emplace_back(std::move(text));
  return prompts;
}

int run(Options& options, Output& output) {
  const std::vector<Prompt> prompts = read_prompts(options);
  LLM llm(to_engine_options(options, find_model_directory(options)));
  const InterruptScope interrupt;
  ProgressLine progress(wants_progress(options));
  CallOptions call;
  call.cancelled = [&] { return interrupt.interrupted(); };
  call.on_progress = [&](const Progress& now) { progress.update(now, "sequences"); };
  call.add_bos = adds_bos(options, llm.info());
  const auto results = llm.score(prompts, static_cast<int>(options.integer("top-logprobs")), call);
  progress.clear();

  std::size_t failed = 0;
  for (const ScoreResult& result : results) {
    if (options.flag("json")) {
      output.line(dump(score_value(result)));
    } else {
      output.line(is_failure(result) ? "failed" : score_line(result));
    }
    if (!is_failure(result)) continue;
    ++failed;
    tell("sequence " + std::to_string(result.index + 1) + " failed: " + result.error);
  }
  if (interrupt.interrupted()) return kInterruptedExit;
  return failed == 0 || options.flag("allow-failures") ? 0 : kExitFailedRequests;
}

}  // namespace

Command score_command() {
  return {.name = "score",
          .summary = "Log-probabilities and perplexity of texts or of given token ids.",
          .description =
              "  deepinfer score notes.txt\n"
              "  deepinfer score --ids ids.json --top-logprobs 5 --json",
          .argument = {"FILE", "text files, one sequence each; stdin by default", -1},
          .groups = {text_input_options("a text"),
                     {"Scores",
                      {{.name = "ids",
                        .value_name = "FILE",
                        .help = "a JSON array of token ids, or one array a line; `-` is stdin",
                        .configurable = false},
                       {.name = "top-logprobs",
                        .kind = OptionKind::kInteger,
                        .value_name = "K",
                        .help = "the K most likely tokens at each position",
                        .default_value = "0",
                        .minimum = 0,
                        .maximum = 1000},
                       bos_option(),
                       {.name = "json",
                        .kind = OptionKind::kFlag,
                        .help = "one JSON object a sequence (docs/json.md)"},
                       {.name = "allow-failures",
                        .kind = OptionKind::kFlag,
                        .help = "exit with 0 even when a sequence failed"}}},
                     model_options(),
                     engine_options(),
                     general_options()},
          .run = run};
}

}  // namespace deepinfer::cli
