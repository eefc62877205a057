#include "text/chat_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "text/chat_encoder.h"
#include "text/chat_golden.h"

namespace deepinfer {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ChatRequestOptions strict() {
  ChatRequestOptions options;
  options.strict_recipe = true;
  return options;
}

/// A plain request with some members added or replaced.
Json body(const std::string& members = "{}") {
  Json request = Json::parse(R"({"model": "m", "messages": [{"role": "user", "content": "Hi"}]})");
  request.update(Json::parse(members));
  return request;
}

ChatRequest parse(const std::string& members, const ChatRequestOptions& options = {}) {
  return chat_request_from_json(body(members), options);
}

/// The message of the error that the request causes; it must name `field`.
std::string error_of(const Json& request, const std::string& field,
                     const ChatRequestOptions& options = {}) {
  try {
    chat_request_from_json(request, options);
  } catch (const RequestError& error) {
    EXPECT_EQ(error.status(), 400);
    EXPECT_EQ(error.field(), field) << error.what();
    const Json answer = Json::parse(error.to_json());
    EXPECT_EQ(answer.at("error").at("message").get<std::string>(), error.what());
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << request.dump();
  return "";
}

const char* constraint_name(OutputConstraint::Kind kind) {
  switch (kind) {
    case OutputConstraint::Kind::kNone:
      return "none";
    case OutputConstraint::Kind::kJson:
      return "json";
    case OutputConstraint::Kind::kRegex:
      return "regex";
    case OutputConstraint::Kind::kToolCall:
      return "tool_call";
    case OutputConstraint::Kind::kToolCallRequired:
      return "tool_call_required";
  }
  return "";
}

/// The request in the form of the golden results.
Json golden_form(const ChatRequest& request) {
  const RenderedPrompt prompt = ChatEncoder().render(request.conversation);
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  Json form;
  form["prompt"] = prompt.text;
  form["thinking"] = request.conversation.thinking;
  form["reasoning_effort"] =
      request.reasoning_effort.empty() ? Json(nullptr) : Json(request.reasoning_effort);
  form["temperature"] = request.temperature;
  form["top_p"] = request.top_p;
  form["max_tokens"] = or_null(request.max_tokens);
  form["default_max_tokens"] = request.wanted_tokens();
  form["seed"] = or_null(request.seed);
  form["logprobs"] = request.logprobs;
  form["top_logprobs"] = or_null(request.top_logprobs);
  form["stop"] = request.stop;
  form["constraint"] = nullptr;
  if (request.constraint.kind != OutputConstraint::Kind::kNone) {
    form["constraint"] = {constraint_name(request.constraint.kind), request.constraint.text};
  }
  form["parse_tool_calls"] = request.parse_tool_calls;
  form["starts_in_tool_calls"] = prompt.start == OutputStart::kCalls;
  form["stream"] = request.stream;
  return form;
}

TEST(ChatRequest, StrictRecipeEqualsTheGoldenRequests) {
  for (const Json& golden : read_chat_cases("requests.json", 36)) {
    SCOPED_TRACE(golden.at("name").get<std::string>());
    const std::string text = golden.at("request").dump();
    if (golden.contains("error")) {
      try {
        parse_chat_request(text, strict());
        ADD_FAILURE() << "accepted";
      } catch (const RequestError& error) {
        EXPECT_EQ(error.status(), golden.at("error").at("status").get<int>());
        Json expected = golden.at("error").value("body", Json());
        if (!expected.is_null()) {
          expected["error"]["message"] = error.what();
          EXPECT_EQ(Json::parse(error.to_json()), expected);
        }
      }
      continue;
    }
    const ChatRequest request = parse_chat_request(text, strict());
    EXPECT_EQ(golden_form(request), golden.at("result"));
    EXPECT_THAT(request.unknown_fields, IsEmpty());
  }
}

// Our own rules: interface.md §7.4 and §8.2.

TEST(ChatRequest, NamedSamplingValuesAreHonouredAndNoted) {
  const ChatRequest greedy = parse(R"({"temperature": 0, "top_p": 0.5})");
  EXPECT_EQ(greedy.temperature, 0.0);
  EXPECT_EQ(greedy.top_p, 0.5);
  EXPECT_THAT(greedy.policy_departures, ElementsAre("temperature 0.0 (official policy: 1.0)",
                                                    "top_p 0.5 (official policy: 0.95)"));
  const ChatRequest official = parse(R"({"temperature": 1, "top_p": 0.97})");
  EXPECT_EQ(official.top_p, 0.97);
  EXPECT_THAT(official.policy_departures, IsEmpty());
  const ChatRequest chat = parse(R"({"thinking": {"type": "disabled"}, "temperature": 0.3,
                                     "top_p": 0.9})");
  EXPECT_EQ(chat.temperature, 0.3);
  EXPECT_EQ(chat.top_p, 0.9);
  EXPECT_THAT(chat.policy_departures, ElementsAre("top_p 0.9 (official policy: 1.0)"));
  EXPECT_EQ(parse("{}").temperature, 1.0);
  EXPECT_EQ(parse("{}").top_p, 1.0);
}

TEST(ChatRequest, TheOfficialSamplingPolicyOverridesAndSaysSo) {
  ChatRequestOptions options;
  options.official_sampling = true;
  const ChatRequest request = parse(R"({"temperature": 0, "top_p": 0.5, "top_k": 5})", options);
  EXPECT_EQ(request.temperature, 1.0);
  EXPECT_EQ(request.top_p, 0.95);
  EXPECT_EQ(request.policy_overrides.size(), 2u);
  EXPECT_THAT(request.policy_departures, IsEmpty());
}

TEST(ChatRequest, EffortMayBeAnInteger) {
  const ChatRequest request = parse(R"({"reasoning_effort": 80})");
  EXPECT_EQ(request.conversation.effort, 80);
  EXPECT_EQ(request.reasoning_effort, "80");
  EXPECT_THAT(ChatEncoder().render(request.conversation).text, HasSubstr("Reasoning Effort: 80 ("));
  EXPECT_EQ(request.wanted_tokens(), 65536);
  EXPECT_EQ(parse(R"({"reasoning_effort": 100})").wanted_tokens(), 131072);
  for (const char* value : {"0", "101", "1.5", "true", "[]", "{}", "\"huge\""}) {
    error_of(body("{\"reasoning_effort\": " + std::string(value) + "}"), "reasoning_effort");
  }
}

TEST(ChatRequest, DeveloperIsSystem) {
  const auto request = parse(R"({"messages": [{"role": "developer", "content": "x"}]})");
  EXPECT_EQ(request.conversation.messages[0].role, ChatRole::kSystem);
}

TEST(ChatRequest, TemplateArgumentsOfOtherEnginesAreUnderstood) {
  EXPECT_FALSE(parse(R"({"chat_template_kwargs": {"thinking": false}})").conversation.thinking);
  EXPECT_FALSE(
      parse(R"({"chat_template_kwargs": {"enable_thinking": false}})").conversation.thinking);
  EXPECT_EQ(parse(R"({"chat_template_kwargs": {"reasoning_effort": "max"}})").conversation.effort,
            100);
  EXPECT_TRUE(parse(R"({"thinking": {"type": "enabled"},
                        "chat_template_kwargs": {"thinking": false}})")
                  .conversation.thinking);
  EXPECT_THAT(parse(R"({"chat_template_kwargs": {"x": 1}})").unknown_fields,
              ElementsAre("chat_template_kwargs.x"));
}

TEST(ChatRequest, MaxCompletionTokensIsAnAlias) {
  EXPECT_EQ(parse(R"({"max_completion_tokens": 7})").max_tokens, 7);
  EXPECT_EQ(parse(R"({"max_completion_tokens": 7, "max_tokens": 7})").max_tokens, 7);
  error_of(body(R"({"max_completion_tokens": 7, "max_tokens": 8})"), "max_completion_tokens");
}

TEST(ChatRequest, ExtraSamplingFieldsAreRead) {
  const ChatRequest request = parse(R"({"n": 16, "top_k": 5, "min_p": 0.1, "presence_penalty": -1,
      "frequency_penalty": 2, "repetition_penalty": 1.1, "logit_bias": {"7": -100, "8": 1.5},
      "stop_token_ids": [1, 2], "allowed_token_ids": [3], "bad_words": ["x"], "min_tokens": 4,
      "ignore_eos": true, "so_args": {"schema": "{}"}})");
  EXPECT_EQ(request.n, 16);
  EXPECT_EQ(request.extra.top_k, 5);
  EXPECT_EQ(request.extra.min_p, 0.1);
  EXPECT_EQ(request.extra.presence_penalty, -1.0);
  EXPECT_EQ(request.extra.frequency_penalty, 2.0);
  EXPECT_EQ(request.extra.repetition_penalty, 1.1);
  EXPECT_THAT(request.extra.logit_bias,
              ElementsAre(testing::Pair(7, -100.0), testing::Pair(8, 1.5)));
  EXPECT_THAT(request.extra.stop_token_ids, ElementsAre(1, 2));
  EXPECT_THAT(request.extra.allowed_token_ids, ElementsAre(3));
  EXPECT_THAT(request.extra.bad_words, ElementsAre("x"));
  EXPECT_EQ(request.extra.min_tokens, 4);
  EXPECT_TRUE(request.extra.ignore_eos);
  EXPECT_EQ(request.extra.so_args, R"({"schema":"{}"})");
  EXPECT_THAT(request.unknown_fields, IsEmpty());
}

TEST(ChatRequest, UnknownFieldsAreListedOnce) {
  const ChatRequest request = parse(R"({"foo": 1, "messages": [
      {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {}}], "bar": 1},
      {"role": "user", "content": "b", "name": "x", "bar": 2}]})");
  EXPECT_THAT(request.unknown_fields,
              ElementsAre("messages[].content[].cache_control", "messages[].bar", "foo"));
}

TEST(ChatRequest, ReasoningMayBeNamedAsOtherServersDo) {
  const auto request = parse(R"({"messages": [{"role": "assistant", "reasoning": "r",
                                               "content": null, "prefix": true}]})");
  EXPECT_EQ(request.conversation.messages[0].reasoning, "r");
}

TEST(ChatRequest, ArgumentsMayBeAnObject) {
  const auto request = parse(R"({"messages": [{"role": "assistant", "tool_calls": [
      {"id": "a", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]},
      {"role": "tool", "tool_call_id": "a", "content": "ok"}]})");
  EXPECT_EQ(request.conversation.messages[0].tool_calls[0].arguments, "{\"x\": 1}");
}

TEST(ChatRequest, ANamedToolIsTheOnlyOneAllowed) {
  const auto request = parse(R"({"thinking": {"type": "disabled"},
      "tools": [{"type": "function", "function": {"name": "f"}},
                {"type": "function", "function": {"name": "g", "strict": true}}],
      "tool_choice": {"type": "function", "function": {"name": "g"}}})");
  EXPECT_EQ(request.constraint.kind, OutputConstraint::Kind::kToolCallRequired);
  EXPECT_EQ(request.constraint.text,
            R"([{"type":"function","function":{"name":"g","description":"","parameters":null,)"
            R"("strict":true}}])");
  EXPECT_THAT(ChatEncoder().render(request.conversation).text, HasSubstr("{\"name\": \"f\""));
}

TEST(ChatRequest, ToolChoiceNoneHidesTheTools) {
  const auto request = parse(R"({"tools": [{"type": "function", "function": {"name": "f"}}],
                                 "tool_choice": "none"})");
  EXPECT_FALSE(request.parse_tool_calls);
  EXPECT_EQ(request.constraint.kind, OutputConstraint::Kind::kNone);
}

TEST(ChatRequest, ModelsThatAreNotServedAre404) {
  ChatRequestOptions options;
  options.served_models = {"a", "b"};
  EXPECT_EQ(parse(R"({"model": "b"})", options).model, "b");
  EXPECT_EQ(parse(R"({"model": null})", options).model, "");
  try {
    parse(R"({"model": "c"})", options);
    FAIL();
  } catch (const RequestError& error) {
    EXPECT_EQ(error.status(), 404);
    EXPECT_THAT(error.what(), HasSubstr("a, b"));
  }
}

TEST(ChatRequest, ImagesKeepTheirPlacesAndTheirOrder) {
  const auto request = parse(R"({"messages": [{"role": "user", "content": [
      {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
      {"type": "text", "text": "é"},
      {"type": "image_url", "image_url": {"url": "data:image/png;base64,BB", "detail": "low"}}]}]})");
  ASSERT_EQ(request.conversation.images.size(), 2u);
  EXPECT_EQ(request.conversation.images[1].url, "data:image/png;base64,BB");
  EXPECT_EQ(request.conversation.images[1].detail, "low");
  const RenderedPrompt prompt = ChatEncoder().render(request.conversation);
  EXPECT_THAT(
      prompt.text,
      HasSubstr("<｜User｜><｜deepseek_image｜>\n\né\n\n<｜deepseek_image｜><｜Assistant｜>"));
  EXPECT_THAT(prompt.image_order, ElementsAre(0, 1));
  const char* remote = R"({"messages": [{"role": "user", "content": [
      {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}]}]})";
  error_of(body(remote), "messages[0].content[0].image_url.url");
  ChatRequestOptions options;
  options.allow_http_images = true;
  EXPECT_EQ(parse(remote, options).conversation.images.size(), 1u);
}

TEST(ChatRequest, TokenBudgetFollowsTheContext) {
  const ChatRequest open = parse("{}");
  EXPECT_EQ(open.token_budget(10), 65536);
  EXPECT_EQ(open.token_budget(kOfficialContextTokens - 100), 100);
  EXPECT_EQ(open.token_budget(4000, 4096), 96);
  EXPECT_EQ(open.token_budget(5000, 4096), 1);
  const ChatRequest given = parse(R"({"max_tokens": 100})");
  EXPECT_EQ(given.token_budget(3996, 4096), 100);
  EXPECT_THROW(given.token_budget(3997, 4096), RequestError);
}

TEST(ChatRequest, BrokenJsonNamesThePosition) {
  for (const char* text : {"", "{", "[1,", "{\"messages\": [}", "{\"a\": \"\xff\"}", "{} {}"}) {
    try {
      parse_chat_request(std::string_view(text));
      ADD_FAILURE() << "accepted: " << text;
    } catch (const RequestError& error) {
      EXPECT_THAT(error.what(), HasSubstr("column")) << text;
      EXPECT_TRUE(Json::accept(error.to_json()));
    }
  }
  const std::string deep(1'000'000, '[');
  EXPECT_THROW(parse_chat_request(std::string_view(deep)), RequestError);
  Json nested;
  for (int i = 0; i < 1000; ++i) nested = Json::array({nested});
  EXPECT_THROW(chat_request_from_json(nested), RequestError);
}

/// One value of every JSON kind; null is left out because it means absent.
const std::vector<std::pair<std::string, std::string>>& json_kinds() {
  static const std::vector<std::pair<std::string, std::string>> kinds = {
      {"boolean", "true"}, {"integer", "7"},
      {"negative", "-7"},  {"huge", "18446744073709551615"},
      {"float", "0.5"},    {"string", "\"\\u0001<x>\""},
      {"list", "[[]]"},    {"object", "{\"zz\": 1}"}};
  return kinds;
}

/// A path into a body, and the kinds that are right there.
struct TypedField {
  std::string pointer;
  std::vector<std::string> accepted;
};

TEST(ChatRequest, EveryFieldRefusesEveryWrongKindByName) {
  const Json full = Json::parse(R"({
      "model": "m", "thinking": {"type": "disabled"}, "reasoning_effort": "high",
      "messages": [
        {"role": "system", "content": "json"},
        {"role": "user", "content": [{"type": "text", "text": "x"},
          {"type": "image_url", "image_url": {"url": "data:,", "detail": "low"}}]},
        {"role": "assistant", "content": "c", "reasoning_content": "r", "tool_calls": [
          {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "ok"},
        {"role": "assistant", "content": "p", "prefix": true}],
      "tools": [{"type": "function", "function": {"name": "f", "description": "d",
        "parameters": {}, "strict": true, "defer_loading": false}}],
      "tool_choice": "auto",
      "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
      "temperature": 0.5, "top_p": 0.5, "max_tokens": 5, "max_completion_tokens": 5, "n": 1,
      "seed": 7, "logprobs": true, "top_logprobs": 3, "stop": ["s"], "top_k": 5, "min_p": 0.5,
      "presence_penalty": 0.5, "frequency_penalty": 0.5, "repetition_penalty": 0.5,
      "logit_bias": {"7": 1}, "stop_token_ids": [1], "allowed_token_ids": [1], "bad_words": ["b"],
      "min_tokens": 1, "ignore_eos": true, "so_args": {}, "stream": true,
      "stream_options": {"include_usage": true},
      "chat_template_kwargs": {"thinking": false, "enable_thinking": false,
                               "reasoning_effort": "low"}})");
  ASSERT_NO_THROW(chat_request_from_json(full));
  const std::vector<TypedField> fields = {
      {"/model", {"string"}},
      {"/thinking", {}},
      {"/thinking/type", {}},
      {"/reasoning_effort", {"integer"}},
      {"/messages", {}},
      {"/messages/0", {}},
      {"/messages/0/role", {}},
      {"/messages/0/content", {"string"}},
      {"/messages/1/content/0", {}},
      {"/messages/1/content/0/type", {}},
      {"/messages/1/content/0/text", {"string"}},
      {"/messages/1/content/1/image_url", {}},
      {"/messages/1/content/1/image_url/url", {}},
      {"/messages/1/content/1/image_url/detail", {}},
      {"/messages/2/reasoning_content", {"string"}},
      {"/messages/2/tool_calls", {}},
      {"/messages/2/tool_calls/0", {}},
      {"/messages/2/tool_calls/0/id", {}},
      {"/messages/2/tool_calls/0/type", {}},
      {"/messages/2/tool_calls/0/function", {}},
      {"/messages/2/tool_calls/0/function/name", {"string"}},
      {"/messages/2/tool_calls/0/function/arguments", {"string", "object"}},
      {"/messages/3/tool_call_id", {}},
      {"/messages/4/prefix", {"boolean"}},
      {"/tools", {}},
      {"/tools/0", {}},
      {"/tools/0/type", {}},
      {"/tools/0/function", {}},
      {"/tools/0/function/name", {}},
      {"/tools/0/function/description", {"string"}},
      {"/tools/0/function/parameters", {"object"}},
      {"/tools/0/function/strict", {"boolean"}},
      {"/tools/0/function/defer_loading", {"boolean"}},
      {"/tool_choice", {}},
      {"/response_format", {}},
      {"/response_format/type", {}},
      {"/response_format/json_schema", {}},
      {"/response_format/json_schema/schema", {"object"}},
      {"/temperature", {"float"}},
      {"/top_p", {"float"}},
      {"/max_tokens", {}},
      {"/max_completion_tokens", {}},
      {"/n", {"integer"}},
      {"/seed", {"integer"}},
      {"/logprobs", {"boolean"}},
      {"/top_logprobs", {"integer"}},
      {"/stop", {"string"}},
      {"/stop/0", {"string"}},
      {"/top_k", {"integer"}},
      {"/min_p", {"float"}},
      {"/presence_penalty", {"float"}},
      {"/frequency_penalty", {"float"}},
      {"/repetition_penalty", {"integer", "huge", "float"}},
      {"/logit_bias", {}},
      {"/logit_bias/7", {"integer", "negative", "float"}},
      {"/stop_token_ids", {}},
      {"/stop_token_ids/0", {"integer"}},
      {"/allowed_token_ids", {}},
      {"/bad_words", {}},
      {"/bad_words/0", {"string"}},
      {"/min_tokens", {"integer"}},
      {"/ignore_eos", {"boolean"}},
      {"/so_args", {"object"}},
      {"/stream", {"boolean"}},
      {"/stream_options", {"object"}},
      {"/stream_options/include_usage", {"boolean"}},
      {"/chat_template_kwargs", {"object"}},
      {"/chat_template_kwargs/thinking", {"boolean"}},
      {"/chat_template_kwargs/enable_thinking", {"boolean"}},
  };
  for (const TypedField& field : fields) {
    for (const auto& [kind, value] : json_kinds()) {
      SCOPED_TRACE(field.pointer + " = " + value);
      const bool accepted = testing::Matches(testing::Contains(kind))(field.accepted);
      Json request = full;
      request.at(Json::json_pointer(field.pointer)) = Json::parse(value);
      try {
        chat_request_from_json(request);
        EXPECT_TRUE(accepted);
      } catch (const RequestError& error) {
        EXPECT_FALSE(accepted) << error.what();
        EXPECT_EQ(error.status(), 400);
        EXPECT_FALSE(error.field().empty());
        EXPECT_TRUE(Json::accept(error.to_json()));
      }
    }
  }
}

TEST(ChatRequest, EveryMemberMayBeMissingOrIsNamedAsMissing) {
  const Json full = Json::parse(R"({"model": "m", "messages": [
      {"role": "user", "content": [{"type": "text", "text": "json"}]},
      {"role": "assistant", "content": "c", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
      {"role": "tool", "tool_call_id": "a", "content": "ok"}],
      "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
      "thinking": {"type": "enabled"},
      "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}})");
  const std::vector<std::pair<std::string, std::string>> needed = {
      {"/messages", "messages"},
      {"/messages/0/role", "messages[0].role"},
      {"/messages/0/content", "messages[0].content"},
      {"/messages/0/content/0/type", "messages[0].content[0].type"},
      {"/messages/0/content/0/text", "messages[0].content[0].text"},
      {"/messages/1/tool_calls/0/id", "messages[1].tool_calls[0].id"},
      {"/messages/1/tool_calls/0/function", "messages[1].tool_calls[0].function"},
      {"/messages/1/tool_calls/0/function/name", "messages[1].tool_calls[0].function.name"},
      {"/messages/2/tool_call_id", "messages[2].tool_call_id"},
      {"/messages/2/content", "messages[2].content"},
      {"/tools/0/function", "tools[0].function"},
      {"/tools/0/function/name", "tools[0].function.name"},
      {"/thinking/type", "thinking.type"},
      {"/response_format/type", "response_format.type"},
      {"/response_format/json_schema", "response_format.json_schema"},
      {"/response_format/json_schema/schema", "response_format.json_schema.schema"}};
  for (const auto& [pointer, field] : needed) {
    SCOPED_TRACE(pointer);
    const Json::json_pointer place(pointer);
    Json without = full;
    without.at(place.parent_pointer()).erase(place.back());
    EXPECT_THAT(error_of(without, field), HasSubstr("missing"));
    Json null = full;
    null.at(place) = nullptr;
    EXPECT_THAT(error_of(null, field), HasSubstr("missing"));
  }
  for (const char* pointer : {"/model", "/messages/1/content", "/tools", "/thinking",
                              "/response_format", "/tools/0/function/parameters"}) {
    Json null = full;
    null.at(Json::json_pointer(pointer)) = nullptr;
    EXPECT_NO_THROW(chat_request_from_json(null)) << pointer;
  }
}

TEST(ChatRequest, BodiesThatAreNoObjectAreRefused) {
  for (const char* text : {"null", "true", "1", "\"x\"", "[]"}) {
    EXPECT_THROW(parse_chat_request(std::string_view(text)), RequestError) << text;
  }
}

TEST(ChatRequest, RefusesWhatContradictsItself) {
  const std::string off = R"("thinking": {"type": "disabled"})";
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "f"}}])";
  error_of(body(R"({"tool_choice": "required"})"), "tool_choice");
  error_of(body("{" + off + R"(, "tool_choice": "required"})"), "tool_choice");
  error_of(body("{" + off + ", " + tools + R"(, "tool_choice": {"type": "function",
                 "function": {"name": "g"}}})"),
           "tool_choice.function.name");
  error_of(body("{" + off + ", " + tools + R"(, "tool_choice": "required", "messages": [
                 {"role": "assistant", "content": "a", "prefix": true}]})"),
           "tool_choice");
  error_of(body(R"({"messages": [{"role": "assistant", "content": "a", "prefix": true},
                                 {"role": "user", "content": "b"}]})"),
           "messages[0].prefix");
  error_of(body(R"({"messages": [{"role": "tool", "tool_call_id": "x", "content": "b"}]})"),
           "messages[0].tool_call_id");
  error_of(body(R"({"messages": [{"role": "system", "content": [
                 {"type": "image_url", "image_url": {"url": "data:,"}}]}]})"),
           "messages[0].content[0]");
  error_of(body(R"({"stop": [""]})"), "stop");
  error_of(body(R"({"top_k": 0})"), "top_k");
  error_of(body(R"({"n": 17})"), "n");
  error_of(body(R"({"logit_bias": {"x": 1}})"), "logit_bias");
  error_of(body(R"({"logit_bias": {"1": 101}})"), "logit_bias.1");
}

}  // namespace
}  // namespace deepinfer
