#include "text/chat_request.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "text/chat_request_fields.h"
#include "text/chat_request_messages.h"
#include "text/python_json.h"

namespace deepinfer {
namespace {

using Json = nlohmann::ordered_json;

// Limits and defaults of the official service (interface.md §8.2).
constexpr std::int64_t kMaxOutputTokens = 393'216;
constexpr std::int64_t kDefaultTokens = 8'192;
constexpr std::int64_t kDefaultTokensThinking = 65'536;
constexpr std::int64_t kDefaultTokensMaxEffort = 131'072;
constexpr double kThinkingTemperature = 1.0;
constexpr double kThinkingMinTopP = 0.95;
constexpr std::size_t kMaxStops = 16;
constexpr int kMaxTopLogprobs = 20;
constexpr int kMaxSamples = 16;
constexpr std::array<std::string_view, 2> kOfficialModels = {"DeepSeek-V4-Pro",
                                                             "DeepSeek-V4.1-Flash"};

struct Effort {
  std::string_view request;    ///< name in a request
  std::string_view canonical;  ///< name it stands for; empty turns thinking off
  int number;
};
constexpr std::array kEfforts = {
    Effort{"none", "", 0},
    Effort{"minimal", "low", kEffortLow},
    Effort{"low", "low", kEffortLow},
    Effort{"medium", "high", kEffortHigh},
    Effort{"high", "high", kEffortHigh},
    Effort{"xhigh", "xhigh", kEffortHigh},
    Effort{"ultra", "max", kEffortMax},
    Effort{"max", "max", kEffortMax},
};

bool contains_json(std::string_view text) {
  constexpr std::string_view kWord = "json";
  return std::search(text.begin(), text.end(), kWord.begin(), kWord.end(), [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b;
         }) != text.end();
}

/// The tools as the grammar room gets them: OpenAI's form, compact.
std::string tools_json(const std::vector<ChatTool>& tools, std::string_view only) {
  Json list = Json::array();
  for (const ChatTool& tool : tools) {
    if (!only.empty() && tool.name != only) continue;
    Json function;
    function["name"] = tool.name;
    function["description"] = tool.description;
    function["parameters"] = parse_json_value(tool.parameters).value_or(nullptr);
    function["strict"] = tool.strict ? Json(*tool.strict) : Json(nullptr);
    Json entry;
    entry["type"] = "function";
    entry["function"] = std::move(function);
    list.push_back(std::move(entry));
  }
  return compact_json(list);
}

bool is_deeper_than(const Json& value, std::size_t levels) {
  if (!value.is_structured()) return false;
  if (levels == 0) return true;
  return std::any_of(value.begin(), value.end(),
                     [levels](const Json& member) { return is_deeper_than(member, levels - 1); });
}

class RequestReader {
 public:
  RequestReader(const Json& body, const ChatRequestOptions& options)
      : options_(options), fields_(body, "") {}

  ChatRequest read() {
    read_model();
    const Json& messages = fields_.require("messages", "a list of messages");
    read_messages(messages, options_, request_.conversation, request_.unknown_fields);
    read_thinking();
    read_tool_fields();
    read_response_format();
    read_temperature_and_top_p();
    read_official_sampling();
    if (!options_.strict_recipe) read_extra_sampling();
    read_stream();
    check_prefix();
    fields_.add_unknown(request_.unknown_fields);
    // The official rules ignore unknown fields without a word.
    if (options_.strict_recipe) request_.unknown_fields.clear();
    return std::move(request_);
  }

 private:
  void read_model() {
    if (options_.strict_recipe) {
      request_.model = fields_.required_text("model");
      if (std::find(kOfficialModels.begin(), kOfficialModels.end(), request_.model) ==
          kOfficialModels.end()) {
        fail_field("model", Json(request_.model), "DeepSeek-V4-Pro or DeepSeek-V4.1-Flash");
      }
      return;
    }
    const auto model = fields_.text("model");
    request_.model = model.value_or("");
    const auto& served = options_.served_models;
    if (!model || served.empty() ||
        std::find(served.begin(), served.end(), *model) != served.end()) {
      return;
    }
    std::string names;
    for (const std::string& name : served) names += (names.empty() ? "" : ", ") + name;
    throw RequestError(
        "model", "model: " + json_string(*model) + " is not served, expected one of " + names, 404);
  }

  // Thinking and effort.

  std::optional<bool> thinking_switch() {
    const Json* value = fields_.find("thinking");
    if (value == nullptr) return std::nullopt;
    RequestFields thinking(*value, "thinking");
    const std::string type = thinking.required_text("type");
    thinking.add_unknown(request_.unknown_fields);
    if (type == "enabled") return true;
    if (type == "disabled") return false;
    fail_field("thinking.type", Json(type), "\"enabled\" or \"disabled\"");
  }

  void read_thinking() {
    auto thinking = thinking_switch();
    const Json* effort = fields_.find("reasoning_effort");
    std::string effort_path = "reasoning_effort";
    if (!options_.strict_recipe) {
      // What chat templates of other engines call these; a top-level field wins.
      if (const Json* value = fields_.find("chat_template_kwargs")) {
        RequestFields kwargs(*value, "chat_template_kwargs");
        for (const char* key : {"thinking", "enable_thinking"}) {
          if (kwargs.find(key) == nullptr) continue;
          const bool wanted = kwargs.boolean_or(key, true);
          if (!thinking) thinking = wanted;
        }
        const Json* inner = kwargs.find("reasoning_effort");
        if (effort == nullptr && inner != nullptr) {
          effort = inner;
          effort_path = kwargs.path("reasoning_effort");
        }
        kwargs.add_unknown(request_.unknown_fields);
      }
    }
    ChatConversation& conversation = request_.conversation;
    conversation.thinking = thinking.value_or(true);
    request_.reasoning_effort = "high";
    if (effort != nullptr) read_effort(*effort, effort_path);
    if (!conversation.thinking) request_.reasoning_effort.clear();
  }

  void read_effort(const Json& value, const std::string& path) {
    ChatConversation& conversation = request_.conversation;
    if (value.is_number() && !options_.strict_recipe) {
      conversation.effort = static_cast<int>(read_integer(value, path, 1, 100));
      request_.reasoning_effort = std::to_string(conversation.effort);
      return;
    }
    std::string expected = "one of";
    for (const Effort& effort : kEfforts) {
      if (value.is_string() && value.get_ref<const std::string&>() == effort.request) {
        if (effort.canonical.empty()) {
          conversation.thinking = false;
        } else {
          conversation.effort = effort.number;
          request_.reasoning_effort = effort.canonical;
        }
        return;
      }
      expected += " " + std::string(effort.request);
    }
    if (!options_.strict_recipe) expected += " or an integer from 1 to 100";
    fail_field(path, value, expected);
  }

  // Tools and format.

  void read_tool_fields() {
    ChatConversation& conversation = request_.conversation;
    if (const Json* tools = fields_.find("tools")) {
      conversation.tools = read_tools(*tools, options_, request_.unknown_fields);
    }
    std::string only;
    if (const Json* choice = fields_.find("tool_choice")) only = read_tool_choice(*choice);
    const bool required = conversation.tool_choice == ToolChoice::kRequired;
    if (required && conversation.thinking) {
      fail_field("tool_choice", "the model can't be forced to call a tool while thinking");
    }
    if (required && !shows_tools(conversation)) {
      fail_field("tool_choice", "the model can't be forced to call a tool without tools");
    }
    if (!shows_tools(conversation)) return;
    request_.parse_tool_calls = true;
    request_.constraint.kind =
        required ? OutputConstraint::Kind::kToolCallRequired : OutputConstraint::Kind::kToolCall;
    request_.constraint.text = tools_json(conversation.tools, only);
  }

  /// Returns the one tool that must be called, or nothing.
  std::string read_tool_choice(const Json& value) {
    ToolChoice& choice = request_.conversation.tool_choice;
    constexpr std::string_view kExpected =
        "\"auto\", \"none\", \"required\" or an object that names a function";
    if (value.is_object()) {
      RequestFields fields(value, "tool_choice");
      const std::string type = fields.required_text("type");
      if (type != "function") fail_field("tool_choice.type", Json(type), "\"function\"");
      RequestFields function(fields.require("function", "an object"), "tool_choice.function");
      std::string name = function.required_text("name");
      const auto& tools = request_.conversation.tools;
      if (std::none_of(tools.begin(), tools.end(),
                       [&name](const ChatTool& tool) { return tool.name == name; })) {
        fail_field("tool_choice.function.name", Json(name), "the name of one of the tools");
      }
      function.add_unknown(request_.unknown_fields);
      fields.add_unknown(request_.unknown_fields);
      choice = ToolChoice::kRequired;
      return name;
    }
    const std::string name = value.is_string() ? value.get<std::string>() : "";
    if (name == "none") {
      choice = ToolChoice::kNone;
    } else if (name == "required") {
      choice = ToolChoice::kRequired;
    } else if (name != "auto") {
      fail_field("tool_choice", value, kExpected);
    }
    return {};
  }

  void read_response_format() {
    const Json* value = fields_.find("response_format");
    if (value == nullptr) return;
    RequestFields fields(*value, "response_format");
    ResponseFormat& format = request_.conversation.response_format;
    const std::string type = fields.required_text("type");
    OutputConstraint constraint;
    if (type == "json_object") {
      require_word_json();
      format.kind = ResponseFormat::Kind::kJsonObject;
      constraint.kind = OutputConstraint::Kind::kJson;
    } else if (type == "json_schema") {
      RequestFields inner(fields.require("json_schema", "an object"), fields.path("json_schema"));
      const Json& schema = inner.require("schema", "a JSON schema");
      if (!schema.is_object()) fail_field(inner.path("schema"), schema, "an object");
      inner.ignore({"name", "description", "strict"});
      inner.add_unknown(request_.unknown_fields);
      format.kind = ResponseFormat::Kind::kJsonSchema;
      format.schema = python_json(schema);
      constraint = {OutputConstraint::Kind::kJson, compact_json(schema)};
    } else if (type == "regex") {
      format.kind = ResponseFormat::Kind::kRegex;
      format.regex = fields.required_text("regex");
      constraint = {OutputConstraint::Kind::kRegex, format.regex};
    } else if (type != "text") {
      fail_field(fields.path("type"), Json(type), "text, json_object, json_schema or regex");
    }
    fields.add_unknown(request_.unknown_fields);
    // With tools the answer may be a call, so their constraint stays; the format is still known.
    if (request_.constraint.kind == OutputConstraint::Kind::kNone) {
      request_.constraint = std::move(constraint);
    }
  }

  void require_word_json() {
    const auto& messages = request_.conversation.messages;
    if (std::none_of(messages.begin(), messages.end(), [](const ChatMessage& message) {
          return contains_json(message.content.text);
        })) {
      fail_field("response_format", "json_object needs the word 'json' in some message");
    }
  }

  // Sampling.

  void read_temperature_and_top_p() {
    const bool thinking = request_.conversation.thinking;
    const auto temperature = fields_.number("temperature", 0.0, 2.0);
    const auto top_p = fields_.number("top_p", 0.0, 1.0);
    if (top_p && *top_p <= 0.0) {
      fail_field("top_p", Json(*top_p), "a number above 0 and at most 1");
    }
    const double official_temperature = thinking ? kThinkingTemperature : temperature.value_or(1.0);
    const double official_top_p = thinking && top_p ? std::max(kThinkingMinTopP, *top_p) : 1.0;
    request_.temperature = apply_policy("temperature", temperature, official_temperature);
    request_.top_p = apply_policy("top_p", top_p, official_top_p);
  }

  double apply_policy(const std::string& name, std::optional<double> given, double official) {
    if (!given || *given == official) return official;
    const bool override = options_.strict_recipe || options_.official_sampling;
    const std::string note =
        name + " " + python_float(*given) + " (official policy: " + python_float(official) + ")";
    (override ? request_.policy_overrides : request_.policy_departures).push_back(note);
    return override ? official : *given;
  }

  void read_official_sampling() {
    request_.max_tokens = fields_.integer("max_tokens", 1, kMaxOutputTokens);
    if (!options_.strict_recipe) {
      const auto alias = fields_.integer("max_completion_tokens", 1, kMaxOutputTokens);
      if (alias && request_.max_tokens && *alias != *request_.max_tokens) {
        fail_field("max_completion_tokens", "found " + std::to_string(*alias) +
                                                ", but max_tokens says " +
                                                std::to_string(*request_.max_tokens));
      }
      if (alias) request_.max_tokens = alias;
    }
    request_.n = static_cast<int>(
        fields_.integer("n", 1, options_.strict_recipe ? 1 : kMaxSamples).value_or(1));
    if (const auto seed = fields_.integer("seed", 0, std::numeric_limits<std::int64_t>::max())) {
      request_.seed = static_cast<std::uint64_t>(*seed);
    }
    request_.logprobs = fields_.boolean_or("logprobs", false);
    if (const auto top = fields_.integer("top_logprobs", 0, kMaxTopLogprobs)) {
      if (!request_.logprobs) fail_field("top_logprobs", "needs logprobs to be true");
      request_.top_logprobs = static_cast<int>(*top);
    }
    read_stop();
  }

  void read_stop() {
    const Json* value = fields_.find("stop");
    if (value == nullptr) return;
    if (value->is_string()) {
      request_.stop = {value->get<std::string>()};
    } else if (value->is_array()) {
      request_.stop = read_strings(*value, "stop");
    } else {
      fail_field("stop", *value, "a string or a list of strings");
    }
    if (request_.stop.size() > kMaxStops) {
      fail_field("stop", "found " + std::to_string(request_.stop.size()) +
                             " sequences, expected at most " + std::to_string(kMaxStops));
    }
    if (std::find(request_.stop.begin(), request_.stop.end(), "") != request_.stop.end()) {
      fail_field("stop", "found an empty sequence");
    }
  }

  void read_extra_sampling() {
    ExtraSampling& extra = request_.extra;
    constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
    if (const auto top_k = fields_.integer("top_k", -1, kMaxInt)) {
      if (*top_k == 0) fail_field("top_k", Json(0), "-1 (off) or at least 1");
      extra.top_k = static_cast<int>(*top_k);
    }
    extra.min_p = fields_.number("min_p", 0.0, 1.0).value_or(extra.min_p);
    extra.presence_penalty =
        fields_.number("presence_penalty", -2.0, 2.0).value_or(extra.presence_penalty);
    extra.frequency_penalty =
        fields_.number("frequency_penalty", -2.0, 2.0).value_or(extra.frequency_penalty);
    if (const Json* value = fields_.find("repetition_penalty")) {
      constexpr std::string_view kExpected = "a number above 0";
      extra.repetition_penalty = read_number(*value, "repetition_penalty", kExpected);
      if (extra.repetition_penalty <= 0.0) fail_field("repetition_penalty", *value, kExpected);
    }
    if (const Json* value = fields_.find("logit_bias")) read_logit_bias(*value);
    if (const Json* value = fields_.find("stop_token_ids")) {
      extra.stop_token_ids = read_token_ids(*value, "stop_token_ids");
    }
    if (const Json* value = fields_.find("allowed_token_ids")) {
      extra.allowed_token_ids = read_token_ids(*value, "allowed_token_ids");
      if (extra.allowed_token_ids.empty()) fail_field("allowed_token_ids", "found an empty list");
    }
    if (const Json* value = fields_.find("bad_words")) {
      extra.bad_words = read_strings(*value, "bad_words");
    }
    extra.min_tokens = fields_.integer("min_tokens", 0, kMaxOutputTokens).value_or(0);
    extra.ignore_eos = fields_.boolean_or("ignore_eos", false);
    if (const Json* value = fields_.find("so_args")) {
      if (!value->is_object()) fail_field("so_args", *value, "an object");
      extra.so_args = compact_json(*value);
    }
  }

  void read_logit_bias(const Json& value) {
    if (!value.is_object()) fail_field("logit_bias", value, "an object of token ids and biases");
    for (const auto& [key, bias] : value.items()) {
      std::int64_t id = -1;
      const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
      if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || id < 0 ||
          id > std::numeric_limits<std::int32_t>::max()) {
        fail_field("logit_bias", Json(key), "a token id as key");
      }
      constexpr std::string_view kExpected = "a number from -100 to 100";
      const double number = read_number(bias, "logit_bias." + key, kExpected);
      if (std::fabs(number) > 100.0) fail_field("logit_bias." + key, bias, kExpected);
      request_.extra.logit_bias.emplace_back(id, number);
    }
  }

  void read_stream() {
    request_.stream = fields_.boolean_or("stream", false);
    if (const Json* value = fields_.find("stream_options")) {
      RequestFields stream(*value, "stream_options");
      request_.stream_usage = stream.boolean_or("include_usage", false);
      stream.add_unknown(request_.unknown_fields);
    }
  }

  void check_prefix() {
    const ChatConversation& conversation = request_.conversation;
    if (conversation.messages.back().prefix && conversation.tool_choice == ToolChoice::kRequired) {
      fail_field("tool_choice", "the model can't be forced to call a tool after a prefix");
    }
  }

  const ChatRequestOptions& options_;
  RequestFields fields_;
  ChatRequest request_;
};

}  // namespace

std::string RequestError::to_json() const {
  Json error;
  error["message"] = what();
  error["type"] = "invalid_request_error";
  error["param"] = nullptr;
  error["code"] = "invalid_request_error";
  Json body;
  body["error"] = std::move(error);
  // The message may quote bytes of a body that isn't UTF-8.
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::int64_t ChatRequest::wanted_tokens() const {
  if (max_tokens) return *max_tokens;
  if (!conversation.thinking) return kDefaultTokens;
  return conversation.effort >= kEffortMax ? kDefaultTokensMaxEffort : kDefaultTokensThinking;
}

std::int64_t ChatRequest::token_budget(std::int64_t prompt_tokens,
                                       std::int64_t context_tokens) const {
  const std::int64_t left = context_tokens - prompt_tokens;
  if (max_tokens && *max_tokens > left) {
    fail_field("max_tokens", "the prompt has " + std::to_string(prompt_tokens) +
                                 " tokens and max_tokens is " + std::to_string(*max_tokens) +
                                 ", together more than the context of " +
                                 std::to_string(context_tokens));
  }
  return std::clamp(wanted_tokens(), std::int64_t{1}, std::max(std::int64_t{1}, left));
}

ChatRequest parse_chat_request(std::string_view body, const ChatRequestOptions& options) {
  std::string problem;
  const auto value = parse_json_value(body, &problem);
  if (!value) fail_field("", "is no valid JSON: " + problem);
  return chat_request_from_json(*value, options);
}

ChatRequest chat_request_from_json(const nlohmann::ordered_json& body,
                                   const ChatRequestOptions& options) {
  if (is_deeper_than(body, kMaxJsonDepth)) {
    fail_field("", "is nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
  }
  return RequestReader(body, options).read();
}

}  // namespace deepinfer
