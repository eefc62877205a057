#include <map>
#include <utility>

#include "base/error.h"
#include "commands/commands.h"
#include "inputs.h"
#include "interrupt.h"
#include "json_output.h"
#include "model_choice.h"
#include "option_groups.h"
#include "output.h"
#include "stats_file.h"

namespace deepinfer::cli {
namespace {

using SampleKey = std::pair<std::size_t, int>;  // prompt, sample

// Plain text: each result on lines of its own. With `echo` a result is its prompt and what follows
// it, and an empty line stands between two of them.
class TextResults {
 public:
  TextResults(Output& output, const std::vector<std::string>& prompts, bool echo)
      : output_(output), prompts_(prompts), echo_(echo) {}

  void begin(std::size_t index) {
    if (echo_ && !first_) output_.write("\n");
    first_ = false;
    last_ = '\0';
    if (echo_) write(to_utf8(prompts_[index]));
  }
  void write(std::string_view text) {
    if (text.empty()) return;
    output_.write(text);
    last_ = text.back();
  }
  // A result without text takes a line too, so that results can be counted.
  void end() {
    if (last_ != '\n') output_.write("\n");
    output_.flush();
  }

 private:
  Output& output_;
  const std::vector<std::string>& prompts_;
  bool echo_;
  bool first_ = true;
  char last_ = '\0';
};

// Prints samples as their tokens come, one sample at a time and in order; the others wait in
// memory for their turn.
class OrderedStream {
 public:
  OrderedStream(TextResults& results, Output& output, std::size_t prompts, int samples)
      : results_(results), output_(output), prompts_(prompts), samples_(samples) {}

  void add(const StreamEvent& event, bool special) {
    Pending& pending = pending_[{event.index, event.sample}];
    pending.text += special ? event.text_delta : event.text_delta_skip_special;
    pending.finished |= event.output.finished;
    const std::string& reason = event.output.finish_reason;
    pending.refused |= reason == finish_reason::kPromptTooLong ||
                       reason == finish_reason::kInvalidToken || reason == finish_reason::kError;
    drain();
  }

  // Prints what an interrupted run left.
  void finish() {
    for (auto& [key, pending] : pending_) pending.finished = true;
    drain();
  }

 private:
  struct Pending {
    std::string text;
    bool finished = false;
    bool refused = false;  // such a prompt has one sample only
  };

  void drain() {
    while (turn_.first < prompts_) {
      const auto found = pending_.find(turn_);
      if (found == pending_.end()) break;
      Pending& pending = found->second;
      if (!begun_) results_.begin(turn_.first);
      begun_ = true;
      results_.write(pending.text);
      pending.text.clear();
      if (!pending.finished) break;
      results_.end();
      const bool last = pending.refused || turn_.second + 1 == samples_;
      pending_.erase(found);
      turn_ = last ? SampleKey{turn_.first + 1, 0} : SampleKey{turn_.first, turn_.second + 1};
      begun_ = false;
    }
    output_.flush();
  }

  TextResults& results_;
  Output& output_;
  std::size_t prompts_;
  int samples_;
  std::map<SampleKey, Pending> pending_;
  SampleKey turn_ = {0, 0};
  bool begun_ = false;
};

Json logprobs_value(const CompletionResult& result) {
  Json list = Json::array();
  for (std::size_t i = 0; i < result.token_logprobs.size(); ++i) {
    list.push_back(
        {{"token_id", result.token_ids[i]},
         {"logprob", float_value(result.token_logprobs[i])},
         {"top", i < result.top_logprobs.size() ? top_logprobs_value(result.top_logprobs[i])
                                                : Json::array()}});
  }
  return list;
}

Json sample_value(const CompletionResult& result, bool special, bool logprobs) {
  Json json = {{"sample", result.sample},
               {"text", special ? result.text : result.text_skip_special},
               {"token_ids", result.token_ids},
               {"finish_reason", result.finish_reason},
               {"stop_match", nullptr},
               {"seed", result.seq_seed},
               {"logprobs", nullptr}};
  if (result.stop_match) json["stop_match"] = *result.stop_match;
  if (logprobs) json["logprobs"] = logprobs_value(result);
  return json;
}

void print_json(const std::vector<CompletionResult>& results,
                const std::vector<std::string>& prompts, const Options& options, Output& output) {
  for (std::size_t at = 0; at < results.size();) {
    const CompletionResult& first = results[at];
    Json json = {{"schema_version", kSchemaVersion},
                 {"index", first.index},
                 {"prompt", to_utf8(prompts[first.index])},
                 {"prompt_tokens", first.prompt_len},
                 {"outputs", Json::array()},
                 {"error", nullptr}};
    for (; at < results.size() && results[at].index == first.index; ++at) {
      if (is_failure(results[at])) {
        json["error"] = {{"finish_reason", results[at].finish_reason},
                         {"message", results[at].error}};
      } else {
        json["outputs"].push_back(
            sample_value(results[at], options.flag("special"), options.has("logprobs")));
      }
    }
    output.line(dump(json));
  }
}

std::size_t report_failures(const std::vector<CompletionResult>& results) {
  std::size_t failed = 0;
  for (const CompletionResult& result : results) {
    if (!is_failure(result)) continue;
    ++failed;
    tell("prompt " + std::to_string(result.index + 1) + " failed: " + result.error);
  }
  return failed;
}

int run(Options& options, Output& output) {
  const bool json = options.flag("json");
  if (json && options.flag("stream")) fail_argument("--json and --stream exclude each other");
  const std::vector<std::string> texts = read_texts(options);
  const StatsFile stats(options);
  const std::string directory = find_model_directory(options);
  options.add_lower_layer(generation_config_values(options, directory));
  const SamplingParams params = to_sampling_params(options);
  LLM llm(to_engine_options(options, directory));

  const bool stream =
      !json && (options.has("stream") ? options.flag("stream") : output.is_terminal());
  const bool echo = options.has("echo") ? options.flag("echo") : texts.size() > 1;
  const bool special = options.flag("special");
  TextResults text_results(output, texts, echo);
  OrderedStream ordered(text_results, output, texts.size(), params.n);
  ProgressLine progress(wants_progress(options) && !stream);
  const InterruptScope interrupt;
  CallOptions call;
  call.add_bos = adds_bos(options, llm.info());
  call.cancelled = [&] { return interrupt.interrupted(); };
  call.on_progress = [&](const Progress& now) { progress.update(now, "prompts"); };
  if (stream) call.on_token = [&](const StreamEvent& event) { ordered.add(event, special); };

  const double start = monotonic_seconds();
  const auto results = llm.generate({texts.begin(), texts.end()}, {params}, call);
  const double seconds = monotonic_seconds() - start;
  progress.clear();
  if (stream) {
    ordered.finish();
  } else if (json) {
    print_json(results, texts, options, output);
  } else {
    for (const CompletionResult& result : results) {
      const std::string& text = special ? result.text : result.text_skip_special;
      text_results.begin(result.index);
      text_results.write(text);
      text_results.end();
    }
  }
  output.flush();
  const std::size_t failed = report_failures(results);
  stats.write(llm, texts.size(), failed, seconds);
  if (interrupt.interrupted()) return kInterruptedExit;
  return failed == 0 || options.flag("allow-failures") ? 0 : kExitFailedRequests;
}

}  // namespace

Command generate_command() {
  OptionGroup input = text_input_options("a text to complete");
  input.options.push_back(bos_option());
  OptionGroup results = {
      "Results",
      {
          {.name = "json",
           .kind = OptionKind::kFlag,
           .help = "one JSON object a prompt (docs/json.md)"},
          {.name = "stream",
           .kind = OptionKind::kFlag,
           .help = "print text as it comes",
           .default_note = "on a terminal",
           .negatable = true},
          {.name = "echo",
           .kind = OptionKind::kFlag,
           .help = "print each prompt before what follows it",
           .default_note = "with several prompts",
           .negatable = true},
          {.name = "special", .kind = OptionKind::kFlag, .help = "keep special tokens in the text"},
          {.name = "allow-failures",
           .kind = OptionKind::kFlag,
           .help = "exit with 0 even when a prompt failed"},
          stats_file_option(),
      }};
  return {.name = "generate",
          .summary = "Complete one or more raw prompts.",
          .description =
              "  deepinfer generate -p \"The purpose of a file system is\" -n 64\n"
              "  deepinfer generate -m DIR -f notes.txt --temperature 0 --json\n\n"
              "Several prompts run at once; their results are printed in order.",
          .argument = {"PROMPT", "texts to complete, as with --prompt", -1},
          .groups = {std::move(input), std::move(results), sampling_options("256"), model_options(),
                     engine_options(), general_options()},
          .run = run};
}

}  // namespace deepinfer::cli
