#include "chat_input.h"

#include <charconv>

#include "base/error.h"
#include "inputs.h"
#include "json_input.h"

namespace deepinfer::cli {
namespace {

Json effort_value(const std::string& text, const std::string& place) {
  int number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec == std::errc{} && result.ptr == text.data() + text.size()) {
    if (number >= 1 && number <= 100) return number;
  } else if (text == "low" || text == "high" || text == "max") {
    return text;
  }
  fail_argument(place + ": found '" + text + "', expected low, high, max or 1 to 100");
}

}  // namespace

OptionGroup conversation_options() {
  return {"Conversation",
          {
              {.name = "messages",
               .value_name = "FILE",
               .help = "JSON: a list of messages, or a Chat Completions request; `-` is stdin",
               .configurable = false},
              {.name = "system", .value_name = "TEXT", .help = "the system message", .utf8 = true},
              {.name = "thinking",
               .kind = OptionKind::kChoice,
               .help = "whether the model reasons before it answers",
               .default_value = "on",
               .choices = "on|off"},
              {.name = "effort",
               .value_name = "low|high|max|1..100",
               .help = "how much it reasons",
               .default_note = "high"},
              {.name = "tools",
               .value_name = "FILE",
               .help = "JSON list of the tools that the model may call"},
              {.name = "tool-choice",
               .kind = OptionKind::kChoice,
               .help = "whether it may, must not or must call one",
               .default_note = "auto",
               .choices = "auto|none|required"},
              {.name = "image",
               .value_name = "FILE",
               .help = "not in this version: it has no vision tower",
               .repeatable = true,
               .configurable = false},
          }};
}

Json read_json_file(const std::string& path, std::string_view what) {
  const std::string text = read_input(path, what);
  std::string problem;
  Json value = parse_json(text, &problem);
  if (value.is_discarded()) fail_argument(std::string(what) + " " + path + ": " + problem);
  return value;
}

Json conversation_request(const Options& options) {
  if (options.has("image")) {
    fail(ErrorKind::kUnsupported,
         "--image: this version reads text only; the vision tower isn't part of it");
  }
  Json request = {{"messages", Json::array()}};
  if (options.has("messages")) {
    const std::string& path = options.text("messages");
    Json given = read_json_file(path, "--messages");
    if (given.is_array()) {
      request["messages"] = std::move(given);
    } else if (given.is_object() && given.contains("messages") && given["messages"].is_array()) {
      request = std::move(given);
    } else {
      fail_argument("--messages " + path +
                    ": expected a list of messages, or an object with `messages`");
    }
  }
  if (options.has("system")) {
    Json& messages = request["messages"];
    Json system = {{"role", "system"}, {"content", options.text("system")}};
    const bool replaces = !messages.empty() && messages[0].is_object() &&
                          messages[0].value("role", Json()) == "system";
    if (replaces) {
      messages[0] = std::move(system);
    } else {
      messages.insert(messages.begin(), std::move(system));
    }
  }
  if (options.given("thinking")) {  // by default a request decides, and the rules say on
    request["thinking"] = {{"type", options.text("thinking") == "on" ? "enabled" : "disabled"}};
  }
  if (options.has("effort")) {
    const Setting& effort = *options.find("effort");
    request["reasoning_effort"] = effort_value(effort.values.front(), effort.place);
  }
  if (options.has("tools")) request["tools"] = read_json_file(options.text("tools"), "--tools");
  if (options.has("tool-choice")) request["tool_choice"] = options.text("tool-choice");
  return request;
}

void add_sampling_fields(const Options& options, Json& request) {
  struct Field {
    const char* option;
    const char* key;
  };
  constexpr Field kIntegers[] = {{"max-tokens", "max_tokens"},
                                 {"top-k", "top_k"},
                                 {"num-samples", "n"},
                                 {"min-tokens", "min_tokens"}};
  constexpr Field kNumbers[] = {{"temperature", "temperature"},
                                {"top-p", "top_p"},
                                {"min-p", "min_p"},
                                {"repetition-penalty", "repetition_penalty"},
                                {"presence-penalty", "presence_penalty"},
                                {"frequency-penalty", "frequency_penalty"}};
  // What the request itself names is weaker than an option, stronger than generation_config.json.
  const auto applies = [&](const Field& field) {
    if (!options.given(field.option)) return false;
    return options.find(field.option)->origin != Origin::kGenerationConfig ||
           !request.contains(field.key);
  };
  for (const Field& field : kIntegers) {
    if (applies(field)) request[field.key] = options.integer(field.option);
  }
  if (applies({"seed", "seed"})) {
    // A negative one stays so: the rules for requests refuse it.
    const bool negative = options.text("seed").starts_with('-');
    const std::uint64_t seed = options.seed("seed");
    request["seed"] = negative ? Json(static_cast<std::int64_t>(seed)) : Json(seed);
  }
  for (const Field& field : kNumbers) {
    if (applies(field)) request[field.key] = options.number(field.option);
  }
  if (options.has("stop")) request["stop"] = options.texts("stop");
  if (options.flag("ignore-eos")) request["ignore_eos"] = true;
  if (options.has("logprobs")) {
    request["logprobs"] = true;
    request["top_logprobs"] = options.integer("logprobs");
  }
}

}  // namespace deepinfer::cli
