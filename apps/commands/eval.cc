#include <fmt/format.h>

#include "base/error.h"
#include "commands/commands.h"
#include "evaluation.h"
#include "interrupt.h"
#include "json_output.h"
#include "model_choice.h"
#include "option_groups.h"
#include "output.h"

namespace deepinfer::cli {
namespace {

Json task_value(const TaskScore& score) {
  Json distances = Json::array();
  for (const DistanceScore& range : score.distances) {
    distances.push_back({{"low", range.low},
                         {"high", range.high},
                         {"items", range.items},
                         {"correct", range.correct}});
  }
  return {{"task", score.name},           {"items", score.items},
          {"correct", score.correct},     {"failed", score.failed},
          {"accuracy", score.accuracy()}, {"distances", std::move(distances)}};
}

Json prose_value(const ProseScore& score) {
  return {{"name", score.name},
          {"documents", score.documents},
          {"failed", score.failed},
          {"tokens", score.tokens},
          {"loss", score.loss()}};
}

// Scores as they come: a table, or one JSON object at the end.
class EvaluationReport {
 public:
  EvaluationReport(Output& output, const EngineInfo& info, bool json)
      : output_(output), info_(info), json_(json) {
    if (json_) return;
    output_.line(fmt::format("model     {}", info.model_path));
    output_.line(fmt::format("engine    device {}, numerics {}, {} threads\n", info.device,
                             info.numerics, info.num_threads));
    output_.line(fmt::format("{:<24}{:>8}{:>9}{:>11}", "task", "items", "correct", "accuracy"));
    output_.flush();
  }

  void add(const TaskScore& score) {
    tasks_.push_back(task_value(score));
    if (json_) return;
    output_.line(fmt::format("{:<24}{:>8}{:>9}{:>10.1f}%", score.name, score.items, score.correct,
                             100 * score.accuracy()));
    for (const DistanceScore& range : score.distances) {
      const double share = static_cast<double>(range.correct) / static_cast<double>(range.items);
      output_.line(fmt::format("{:<24}{:>8}{:>9}{:>10.1f}%",
                               fmt::format("  distance {}-{}", range.low, range.high - 1),
                               range.items, range.correct, 100 * share));
    }
    output_.flush();
  }
  void add(const ProseScore& score) {
    prose_.push_back(prose_value(score));
    if (json_) return;
    output_.line(fmt::format("{:<24}{:>8}  loss {:.4f} nats/token over {} tokens", score.name,
                             score.documents, score.loss(), score.tokens));
    output_.flush();
  }
  void end(double seconds) {
    if (!json_) return;
    output_.line(dump({{"schema_version", kSchemaVersion},
                       {"model", info_.model_path},
                       {"device", info_.device},
                       {"numerics", info_.numerics},
                       {"threads", info_.num_threads},
                       {"seconds", seconds},
                       {"tasks", tasks_},
                       {"prose", prose_}}));
  }

 private:
  Output& output_;
  const EngineInfo& info_;
  bool json_;
  Json tasks_ = Json::array();
  Json prose_ = Json::array();
};

void show_wrong(const EvaluationFile& file, std::size_t item, const ChatResult& answer) {
  std::string given = answer.failed() ? "failed: " + answer.error : answer.content;
  for (const ToolCall& call : answer.tool_calls) given += " " + call.name + call.arguments;
  tell(fmt::format("{} {}: expected {}, found {}", file.name, item + 1,
                   dump(file.items[item]["expected"]), dump(given)));
}

int run(Options& options, Output& output) {
  const std::string directory = find_model_directory(options);
  const std::string data = options.optional_text("data").value_or(directory + "/eval");
  const auto files = read_evaluation(
      data, options.optional_text("task").value_or(""),
      options.has("limit") ? static_cast<std::size_t>(options.integer("limit")) : 0);
  EngineOptions engine = to_engine_options(options, directory);
  // Items may be as long as the checkpoint allows.
  if (!options.has("max-model-len")) engine.auto_max_model_len = true;
  LLM llm(engine);

  const InterruptScope interrupt;
  ProgressLine progress(wants_progress(options));
  CallOptions call;
  call.cancelled = [&] { return interrupt.interrupted(); };
  EvaluationReport report(output, llm.info(), options.flag("json"));
  std::size_t failed = 0;
  const double start = monotonic_seconds();
  for (const EvaluationFile& file : files) {
    call.on_progress = [&](const Progress& now) { progress.update(now, file.name + " items"); };
    if (file.is_prose) {
      const ProseScore score = evaluate_prose(
          llm, file, static_cast<std::size_t>(options.integer("prose-tokens")), call);
      progress.clear();
      if (interrupt.interrupted()) return kInterruptedExit;
      failed += score.failed;
      report.add(score);
    } else {
      const TaskScore score = evaluate_task(
          llm, file, call, [&](std::size_t item, const ChatResult& answer, bool good) {
            if (options.flag("show-wrong") && !good) show_wrong(file, item, answer);
          });
      progress.clear();
      if (interrupt.interrupted()) return kInterruptedExit;
      failed += score.failed;
      report.add(score);
    }
  }
  report.end(monotonic_seconds() - start);
  if (failed > 0) tell(std::to_string(failed) + " items failed");
  return failed == 0 || options.flag("allow-failures") ? 0 : kExitFailedRequests;
}

}  // namespace

Command eval_command() {
  return {.name = "eval",
          .summary = "Accuracy on tasks with checkable answers, and loss on held-out text.",
          .description =
              "  deepinfer eval -m tiny\n"
              "  deepinfer eval -m tiny --task add --limit 50 --show-wrong",
          .argument = {},
          .groups = {{"Evaluation",
                      {{.name = "data",
                        .value_name = "DIR",
                        .help = "folder of *.jsonl files",
                        .default_note = "eval/ in the model's directory"},
                       {.name = "task",
                        .value_name = "NAME",
                        .help = "only this file of the folder",
                        .default_note = "all"},
                       {.name = "limit",
                        .kind = OptionKind::kInteger,
                        .value_name = "N",
                        .help = "only the first N items of each file",
                        .default_note = "all",
                        .minimum = 1,
                        .maximum = 1e9},
                       {.name = "prose-tokens",
                        .kind = OptionKind::kInteger,
                        .value_name = "N",
                        .help = "tokens of each document, begin of sentence included",
                        .default_value = "512",
                        .minimum = 2,
                        .maximum = 1e9},
                       {.name = "show-wrong",
                        .kind = OptionKind::kFlag,
                        .help = "name each item that isn't right on stderr"},
                       {.name = "json",
                        .kind = OptionKind::kFlag,
                        .help = "a JSON object (docs/json.md)"},
                       {.name = "allow-failures",
                        .kind = OptionKind::kFlag,
                        .help = "exit with 0 even when a request failed"}}},
                     model_options(),
                     engine_options(),
                     general_options()},
          .run = run};
}

}  // namespace deepinfer::cli
