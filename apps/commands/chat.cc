#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "base/log.h"
#include "chat_input.h"
#include "commands/commands.h"
#include "inputs.h"
#include "interrupt.h"
#include "json_output.h"
#include "model_choice.h"
#include "option_groups.h"
#include "output.h"
#include "stats_file.h"
#include "text/chat_request.h"
#include "text/utf8.h"

namespace deepinfer::cli {
namespace {

// Prints an answer as it comes: reasoning between <think> marks if wanted, then the content, then
// each tool call as a line of JSON.
class AnswerPrinter {
 public:
  AnswerPrinter(Output& output, bool show_thinking)
      : output_(output), show_thinking_(show_thinking) {}

  void add(const ChatDelta& delta) {
    switch (delta.kind) {
      case ChatDelta::Kind::kReasoning:
        if (!show_thinking_) return;
        if (!in_reasoning_) write("<think>\n");
        in_reasoning_ = true;
        write(delta.text);
        break;
      case ChatDelta::Kind::kContent:
        close_reasoning();
        write(delta.text);
        break;
      case ChatDelta::Kind::kToolCall:
        return;  // arguments are worth reading as a whole only
    }
    output_.flush();
  }

  void end(const ChatResult& result) {
    close_reasoning();
    for (const ToolCall& call : result.tool_calls) {
      end_line();
      write(dump({{"name", call.name}, {"arguments", call.arguments}}));
    }
    if (last_ != '\n') write("\n");
    output_.flush();
    last_ = '\0';
  }

 private:
  void write(std::string_view text) {
    if (text.empty()) return;
    output_.write(text);
    last_ = text.back();
  }
  void end_line() {
    if (last_ != '\n' && last_ != '\0') write("\n");
  }
  void close_reasoning() {
    if (!in_reasoning_) return;
    end_line();
    write("</think>\n");
    in_reasoning_ = false;
  }

  Output& output_;
  bool show_thinking_;
  bool in_reasoning_ = false;
  char last_ = '\0';
};

Json calls_value(const ChatResult& result) {
  Json calls = Json::array();
  for (const ToolCall& call : result.tool_calls) {
    calls.push_back({{"id", call.id},
                     {"type", "function"},
                     {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return calls;
}

Json result_value(const ChatResult& result, bool logprobs) {
  Json json = {{"schema_version", kSchemaVersion},
               {"sample", result.sample},
               {"content", result.content},
               {"reasoning_content", result.reasoning_content},
               {"tool_calls", calls_value(result)},
               {"finish_reason", result.finish_reason},
               {"usage",
                {{"prompt_tokens", result.usage.prompt_tokens},
                 {"completion_tokens", result.usage.completion_tokens},
                 {"reasoning_tokens", result.usage.reasoning_tokens},
                 {"total_tokens", result.usage.total_tokens()}}},
               {"token_ids", result.token_ids},
               {"raw_text", result.raw_text},
               {"logprobs", nullptr},
               {"warnings", result.warnings},
               {"error", nullptr}};
  if (logprobs) {
    json["logprobs"] = Json::array();
    for (std::size_t i = 0; i < result.token_logprobs.size(); ++i) {
      json["logprobs"].push_back(
          {{"token_id", result.token_ids[i]},
           {"logprob", float_value(result.token_logprobs[i])},
           {"top", i < result.top_logprobs.size() ? top_logprobs_value(result.top_logprobs[i])
                                                  : Json::array()}});
    }
  }
  if (is_failure(result)) json["error"] = {{"message", result.error}};
  return json;
}

// The model with what stays the same from turn to turn.
class ChatSession {
 public:
  ChatSession(LLM& llm, const Options& options, Output& output)
      : llm_(llm), options_(options), output_(output) {}

  // One turn. Whether it was interrupted is the caller's to ask.
  std::vector<ChatResult> answer(const Json& request, const InterruptScope& interrupt) {
    const bool json = options_.flag("json");
    // One answer is shown as it comes. Of several only whole ones can be told apart.
    const bool stream = !json && request.value("n", Json(1)) == Json(1);
    AnswerPrinter printer(output_, options_.flag("show-thinking"));
    ProgressLine progress(wants_progress(options_) && !stream);
    CallOptions call;
    call.cancelled = [&] { return interrupt.interrupted(); };
    if (stream) call.on_delta = [&](const ChatDelta& delta) { printer.add(delta); };
    call.on_progress = [&](const Progress& now) { progress.update(now, "answers"); };
    ChatOptions chat;
    chat.official_sampling_policy = options_.text("sampling-policy") == "official";

    std::vector<ChatResult> results = llm_.chat({dump(request)}, chat, call);
    progress.clear();
    for (const ChatResult& result : results) {
      for (const std::string& warning : result.warnings) log_warn(warning);
      if (json) {
        output_.line(dump(result_value(result, options_.has("logprobs"))));
      } else if (!is_failure(result)) {
        if (!stream) print_whole(printer, result);
        printer.end(result);
      }
      if (is_failure(result)) tell("the request failed: " + result.error);
    }
    output_.flush();
    return results;
  }

 private:
  static void print_whole(AnswerPrinter& printer, const ChatResult& result) {
    ChatDelta delta;
    if (!result.reasoning_content.empty()) {
      delta.kind = ChatDelta::Kind::kReasoning;
      delta.text = result.reasoning_content;
      printer.add(delta);
    }
    delta.kind = ChatDelta::Kind::kContent;
    delta.text = result.content;
    printer.add(delta);
  }

  LLM& llm_;
  const Options& options_;
  Output& output_;
};

Json assistant_message(const ChatResult& result) {
  Json message = {{"role", "assistant"}, {"content", result.content}};
  if (!result.reasoning_content.empty()) message["reasoning_content"] = result.reasoning_content;
  if (!result.tool_calls.empty()) message["tool_calls"] = calls_value(result);
  return message;
}

void set_system(Json& request, const std::string& text) {
  Json& messages = request["messages"];
  if (!messages.empty() && messages[0].value("role", Json()) == "system") messages.erase(0);
  if (text.empty()) return;
  messages.insert(messages.begin(), {{"role", "system"}, {"content", text}});
}

// Reads lines until /exit or the end of input. Ctrl-C during an answer ends the answer only.
int converse(ChatSession& session, const Json& base, Output& output) {
  Json request = base;
  tell("/exit ends, /reset starts over, /system TEXT sets the system message");
  std::string line;
  while (true) {
    output.write("> ");
    output.flush();
    if (!std::getline(std::cin, line)) {
      output.write("\n");
      return 0;
    }
    if (line == "/exit") return 0;
    if (line == "/reset") {
      request = base;
      continue;
    }
    if (line == "/system" || line.starts_with("/system ")) {
      set_system(request, line.substr(std::min<std::size_t>(line.size(), 8)));
      continue;
    }
    if (line.starts_with('/')) {
      tell("unknown word " + line.substr(0, line.find(' ')) + "; there are /exit, /reset, /system");
      continue;
    }
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    request["messages"].push_back({{"role", "user"}, {"content", to_utf8(line)}});
    const InterruptScope interrupt;
    const auto results = session.answer(request, interrupt);
    if (results.empty() || is_failure(results.front())) {
      request["messages"].erase(request["messages"].size() - 1);
    } else {
      request["messages"].push_back(assistant_message(results.front()));
    }
  }
}

int answer_once(ChatSession& session, const LLM& llm, const StatsFile& stats, const Json& request,
                const Options& options) {
  const InterruptScope interrupt;
  const double start = monotonic_seconds();
  const auto results = session.answer(request, interrupt);
  std::size_t failed = 0;
  for (const ChatResult& result : results) failed += is_failure(result) ? 1 : 0;
  stats.write(llm, 1, failed, monotonic_seconds() - start);
  if (interrupt.interrupted()) return kInterruptedExit;
  return failed == 0 || options.flag("allow-failures") ? 0 : kExitFailedRequests;
}

// Refuses bad options before the model loads, which takes long. What a file of messages says itself
// is judged by the model, as a request that fails; of such a request only the options are tried.
void check_options(const Options& options, const Json& request) {
  Json trial = request;
  if (options.has("messages")) {
    trial = {{"messages", Json::array()}};
    if (options.has("tools")) trial["tools"] = request["tools"];
    add_sampling_fields(options, trial);
  }
  if (options.has("messages") || trial["messages"].empty() ||
      trial["messages"].back()["role"] == "system") {
    trial["messages"].push_back({{"role", "user"}, {"content", "a"}});
  }
  chat_request_from_json(trial);
}

int run(Options& options, Output& output) {
  Json request = conversation_request(options);
  const bool has_text =
      options.has("prompt") || options.has("file") || !options.arguments().empty();
  const bool interactive = !has_text && !options.has("messages") && stdin_is_terminal();
  if (interactive && options.flag("json")) {
    fail_argument("--json needs one turn: give -p TEXT or --messages FILE");
  }
  if (has_text || (!interactive && !options.has("messages"))) {
    std::string text;
    for (const std::string& part : read_texts(options)) {
      require_valid_utf8(part, "the message");
      text += (text.empty() ? "" : "\n\n") + part;
    }
    request["messages"].push_back({{"role", "user"}, {"content", std::move(text)}});
  }
  const StatsFile stats(options);
  const std::string directory = find_model_directory(options);
  options.add_lower_layer(generation_config_values(options, directory));
  add_sampling_fields(options, request);
  check_options(options, request);
  LLM llm(to_engine_options(options, directory));
  ChatSession session(llm, options, output);
  if (interactive) return converse(session, request, output);
  return answer_once(session, llm, stats, request, options);
}

}  // namespace

Command chat_command() {
  OptionGroup results = {"Results",
                         {
                             {.name = "show-thinking",
                              .kind = OptionKind::kFlag,
                              .help = "print the reasoning too, between <think> and </think>"},
                             {.name = "json",
                              .kind = OptionKind::kFlag,
                              .help = "the answer as a JSON object (docs/json.md)"},
                             {.name = "allow-failures",
                              .kind = OptionKind::kFlag,
                              .help = "exit with 0 even when the request failed"},
                             stats_file_option(),
                         }};
  OptionGroup sampling = sampling_options("", "8192; 65536 with thinking; 131072 with effort max");
  sampling.options.push_back(
      {.name = "sampling-policy",
       .kind = OptionKind::kChoice,
       .help = "official: temperature and top-p of the official service, whatever is asked for",
       .default_value = "honour",
       .choices = "honour|official"});
  return {.name = "chat",
          .summary = "Answer in a conversation: one turn, or an interactive loop on a terminal.",
          .description =
              "  deepinfer chat\n"
              "  deepinfer chat -p \"What is 17 + 25?\" --thinking off\n"
              "  deepinfer chat --messages conversation.json --json\n\n"
              "In the loop: /exit, /reset, /system TEXT; Ctrl-C ends an answer.",
          .argument = {"TEXT", "the user's message, as with --prompt", -1},
          .groups = {text_input_options("the user's message"), conversation_options(),
                     std::move(results), std::move(sampling), model_options(), engine_options(),
                     general_options()},
          .run = run};
}

}  // namespace deepinfer::cli
