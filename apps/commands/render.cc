#include <algorithm>

#include "base/error.h"
#include "chat_input.h"
#include "commands/commands.h"
#include "inputs.h"
#include "json_output.h"
#include "model_choice.h"
#include "option_groups.h"
#include "output.h"
#include "text/chat_encoder.h"
#include "text/chat_request.h"
#include "text/output_parser.h"
#include "text/utf8.h"
#include "token_ids.h"

namespace deepinfer::cli {
namespace {

struct StartName {
  const char* name;
  OutputStart start;
};
constexpr StartName kStarts[] = {
    {"reasoning", OutputStart::kReasoning},
    {"reasoning-continuation", OutputStart::kReasoningContinuation},
    {"content", OutputStart::kContent},
    {"content-continuation", OutputStart::kContentContinuation},
    {"calls", OutputStart::kCalls},
};

std::string_view start_name(OutputStart start) {
  const auto* found = std::ranges::find(kStarts, start, &StartName::start);
  return found->name;
}

OutputStart start_of(std::string_view name) {
  const auto* found = std::ranges::find(kStarts, name, &StartName::name);
  return found->start;
}

int render(Options& options, Output& output) {
  if (!options.arguments().empty()) {
    if (options.has("messages")) fail_argument("the messages are given twice");
    options.add_lower_layer(
        {{"messages", Setting{options.arguments(), Origin::kCommandLine, "FILE"}}});
  } else if (!options.has("messages")) {
    if (stdin_is_terminal()) {
      fail_argument("no messages: give a FILE, or pipe JSON into stdin");
    }
    options.add_lower_layer({{"messages", Setting{{"-"}, Origin::kCommandLine, "stdin"}}});
  }
  const ChatRequest request = chat_request_from_json(conversation_request(options));
  const RenderedPrompt prompt = ChatEncoder().render(request.conversation);
  const bool json = options.flag("json");
  if (!json && !options.flag("ids")) {
    output.line(prompt.text);
    return 0;
  }
  const auto ids = load_tokenizer(options).encode_prompt(prompt.text, prompt.special_ranges);
  if (!json) {
    output.line(join_ids(ids));
    return 0;
  }
  output.line(dump({{"schema_version", kSchemaVersion},
                    {"prompt", prompt.text},
                    {"token_ids", ids},
                    {"start", start_name(prompt.start)}}));
  return 0;
}

int parse(Options& options, Output& output) {
  std::string text;
  if (!options.arguments().empty()) {
    text = read_input(options.arguments().front(), "FILE");
  } else if (!stdin_is_terminal()) {
    text = read_input("-", "stdin");
  } else {
    fail_argument("no text: give a FILE, or pipe the model's text into stdin");
  }
  require_valid_utf8(text, "the model's text");
  OutputParserOptions parser;
  parser.start = start_of(options.text("start"));
  parser.parse_tool_calls = options.flag("tool-calls");
  if (options.has("stop")) parser.stop = options.texts("stop");
  const ParsedMessage message = parse_output(text, parser, options.text("finish-reason"));

  Json calls = Json::array();
  for (const ParsedToolCall& call : message.tool_calls) {
    calls.push_back(
        {{"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  output.line(dump({{"schema_version", kSchemaVersion},
                    {"role", "assistant"},
                    {"content", message.content},
                    {"reasoning_content", message.reasoning},
                    {"tool_calls", std::move(calls)},
                    {"finish_reason", message.finish_reason}}));
  return 0;
}

}  // namespace

Command render_command() {
  return {.name = "render",
          .summary = "Turn messages JSON into the prompt that the model sees.",
          .description =
              "  deepinfer render conversation.json\n"
              "  deepinfer render --ids --thinking off < conversation.json",
          .argument = {"FILE", "messages, as with --messages; stdin by default", 1},
          .groups = {conversation_options(),
                     {"Results",
                      {{.name = "ids",
                        .kind = OptionKind::kFlag,
                        .help = "print token ids instead of text"},
                       {.name = "json",
                        .kind = OptionKind::kFlag,
                        .help = "text and ids as a JSON object (docs/json.md)"}}},
                     model_options(),
                     general_options()},
          .run = render};
}

Command parse_command() {
  return {.name = "parse",
          .summary = "Turn the model's text into a message as JSON (docs/json.md).",
          .description = "  deepinfer parse --start reasoning answer.txt",
          .argument = {"FILE", "text that follows a prompt; stdin by default", 1},
          .groups = {{"Parser",
                      {{.name = "start",
                        .kind = OptionKind::kChoice,
                        .help = "what the prompt left open",
                        .default_value = "content",
                        .choices =
                            "reasoning|reasoning-continuation|content|content-continuation|calls"},
                       {.name = "tool-calls",
                        .kind = OptionKind::kFlag,
                        .help = "read tool calls",
                        .default_value = "true",
                        .negatable = true},
                       {.name = "stop",
                        .value_name = "TEXT",
                        .help = "cut the content before this text",
                        .repeatable = true,
                        .utf8 = true},
                       {.name = "finish-reason",
                        .kind = OptionKind::kChoice,
                        .help = "why the text ended",
                        .default_value = "stop",
                        .choices = "stop|length|abort"}}},
                     general_options()},
          .run = parse};
}

}  // namespace deepinfer::cli
