#include "text/output_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "text/chat_golden.h"
#include "text/output_parser_stop.h"

namespace deepinfer {
namespace {

using Json = nlohmann::ordered_json;

ParsedMessage parse_in_chunks(std::string_view text, const OutputParserOptions& options,
                              std::string_view reason,
                              const std::function<std::size_t()>& next_size) {
  OutputParser parser(options);
  ParsedMessage message;
  while (!text.empty()) {
    const std::size_t size = std::min(next_size(), text.size());
    message.add(parser.push(text.substr(0, size)));
    text.remove_prefix(size);
  }
  message.add(parser.finish(reason));
  message.finish_reason = parser.finish_reason();
  return message;
}

/// Parses whole, by byte, by three bytes, by character and in random chunks; expects equal results.
ParsedMessage parse_every_way(const std::string& text, const OutputParserOptions& options,
                              std::string_view reason = "stop") {
  const ParsedMessage whole = parse_output(text, options, reason);
  for (const std::size_t size : {1, 2, 3, 7}) {
    EXPECT_EQ(parse_in_chunks(text, options, reason, [size] { return size; }), whole)
        << "chunks of " << size << " bytes";
  }
  std::size_t at = 0;
  const auto character = [&] {
    std::size_t end = at + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    const std::size_t size = end - at;
    at = end;
    return size;
  };
  EXPECT_EQ(parse_in_chunks(text, options, reason, character), whole) << "single characters";
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const auto size = [&random] {
      return std::size_t{random() % 12 + (random() % 4 == 0 ? 0 : 1)};
    };
    EXPECT_EQ(parse_in_chunks(text, options, reason, size), whole) << "random chunks " << seed;
  }
  return whole;
}

OutputParserOptions with_calls(OutputStart start = OutputStart::kContent) {
  OutputParserOptions options;
  options.start = start;
  options.parse_tool_calls = true;
  return options;
}

std::string call(const std::string& body, const std::string& name = "f") {
  return "<｜DSML｜ invoke name=\"" + name + "\">\n" + body + "\n</｜DSML｜ invoke>";
}

std::string parameter(const std::string& value, bool is_string, const std::string& name = "a") {
  return "<｜DSML｜ parameter name=\"" + name + "\" string=\"" + (is_string ? "true" : "false") +
         "\">" + value + "</｜DSML｜ parameter>";
}

std::string block(const std::string& calls) {
  return "<｜DSML｜ calls>\n" + calls + "\n</｜DSML｜ calls>";
}

/// The arguments of the only call in `body`.
std::string arguments_of(const std::string& body, std::string_view reason = "stop") {
  const ParsedMessage message = parse_every_way(block(call(body)), with_calls(), reason);
  EXPECT_EQ(message.tool_calls.size(), 1u);
  return message.tool_calls.empty() ? "" : message.tool_calls[0].arguments;
}

OutputStart start_of(const Json& input) {
  if (input.at("starts_in_tool_calls").get<bool>()) return OutputStart::kCalls;
  const std::string name = input.at("start");
  if (name == "none") return OutputStart::kContent;
  if (name == "content_continuation") return OutputStart::kContentContinuation;
  if (name == "reasoning_start") return OutputStart::kReasoning;
  if (name == "reasoning_continuation") return OutputStart::kReasoningContinuation;
  throw std::runtime_error("unknown start " + name);
}

TEST(OutputParser, ParsesTheGoldenTextsHoweverTheyAreCut) {
  for (const Json& golden : read_chat_cases("parse.json", 31)) {
    SCOPED_TRACE(golden.at("name").get<std::string>());
    const Json& input = golden.at("input");
    ASSERT_FALSE(input.at("parse_json_output").get<bool>());
    OutputParserOptions options;
    options.start = start_of(input);
    options.parse_tool_calls = input.at("parse_tool_calls");
    options.stop = input.at("stop_sequences").get<std::vector<std::string>>();
    const ParsedMessage message = parse_every_way(input.at("text").get<std::string>(), options,
                                                  input.at("backend_finish").get<std::string>());
    const Json& expected = golden.at("expected");
    EXPECT_EQ(message.content, expected.at("content").get<std::string>());
    EXPECT_EQ(message.reasoning, expected.at("reasoning_content").get<std::string>());
    EXPECT_EQ(message.finish_reason, expected.at("finish_reason").get<std::string>());
    std::vector<ParsedToolCall> calls;
    for (const Json& call : expected.at("tool_calls")) {
      calls.push_back({call.at("name"), call.at("arguments")});
    }
    EXPECT_EQ(message.tool_calls, calls);
  }
}

TEST(OutputParser, DeliversTextAtOnceAndHoldsBackOnlyWhatMayBeAMarker) {
  OutputParser parser(with_calls());
  using Kind = OutputDelta::Kind;
  EXPECT_THAT(parser.push("Hello <"),
              testing::ElementsAre(OutputDelta{Kind::kContent, "Hello ", 0}));
  EXPECT_THAT(parser.push("b"), testing::ElementsAre(OutputDelta{Kind::kContent, "<b", 0}));
  EXPECT_THAT(parser.push("\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\""), testing::IsEmpty());
  EXPECT_THAT(parser.push(">\n"), testing::ElementsAre(OutputDelta{Kind::kToolCallStart, "f", 0}));
  EXPECT_THAT(parser.push("<｜DSML｜ parameter name=\"a\" string=\"true\">x"),
              testing::ElementsAre(OutputDelta{Kind::kToolCallArguments, "{\"a\": \"x", 0}));
  EXPECT_THAT(parser.push("y</｜DSML｜ parameter>"),
              testing::ElementsAre(OutputDelta{Kind::kToolCallArguments, "y\"", 0}));
  EXPECT_THAT(parser.finish("length"), testing::IsEmpty());
  EXPECT_EQ(parser.finish_reason(), "length");
  EXPECT_THAT(parser.push("more"), testing::IsEmpty());
}

TEST(OutputParser, KnowsWhetherItIsInReasoning) {
  OutputParser parser(with_calls(OutputStart::kReasoning));
  EXPECT_TRUE(parser.in_reasoning());
  parser.push("a</thin");
  EXPECT_TRUE(parser.in_reasoning());
  parser.push("k>");
  EXPECT_FALSE(parser.in_reasoning());
}

TEST(OutputParser, NewlinesAroundMarkersAreDroppedAndOthersKept) {
  const ParsedMessage message = parse_every_way(
      "\n\nr\n\n</think>\n\n\nc\n\nd\n\n\n" + block(call("")), with_calls(OutputStart::kReasoning));
  EXPECT_EQ(message.reasoning, "r\n\n");
  EXPECT_EQ(message.content, "c\n\nd");
  EXPECT_EQ(parse_every_way("x\n\n", with_calls()).content, "x\n\n");
  EXPECT_EQ(parse_every_way("x\n\n<｜DSML｜ cal", with_calls()).content, "x\n\n<｜DSML｜ cal");
}

TEST(OutputParser, ALengthStopInsideACallClosesNothingAndLeaksNoMarkup) {
  const std::string head = "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n";
  const std::string string = head + "<｜DSML｜ parameter name=\"a\" string=\"true\">hello wor";
  const auto arguments = [](const std::string& text) {
    const ParsedMessage message = parse_every_way(text, with_calls(), "length");
    EXPECT_EQ(message.finish_reason, "length");
    return message.tool_calls.at(0).arguments;
  };
  EXPECT_EQ(arguments(string), "{\"a\": \"hello wor");
  EXPECT_EQ(arguments(string + "</"), "{\"a\": \"hello wor");
  EXPECT_EQ(arguments(string + "</｜DSML｜ parameter"), "{\"a\": \"hello wor");
  EXPECT_EQ(arguments(string + "</｜DSML｜ parameter>"), "{\"a\": \"hello wor\"");
  EXPECT_EQ(arguments(head), "");
  EXPECT_EQ(arguments(head + "<｜DSML｜ parameter name=\"a\" str"), "");
  const std::string json = head + "<｜DSML｜ parameter name=\"a\" string=\"false\">";
  EXPECT_EQ(arguments(json + "[1, {\"k\": tr"), "{\"a\": [1, {\"k\": tr");
  EXPECT_EQ(arguments(json + "-1"), "{\"a\": -1");
  EXPECT_EQ(arguments(json + "no \"json"), "{\"a\": \"no \\\"json");
}

TEST(OutputParser, ALengthStopAfterACompleteCallIsStillLength) {
  EXPECT_EQ(parse_every_way("<｜DSML｜ calls>\n" + call(""), with_calls(), "length").finish_reason,
            "length");
  EXPECT_EQ(parse_every_way(block(call("")), with_calls(), "abort").finish_reason, "abort");
}

TEST(OutputParser, MalformedParametersBecomeValidJson) {
  // Without the attribute the value is JSON.
  EXPECT_EQ(arguments_of("<｜DSML｜ parameter name=\"a\">[1]</｜DSML｜ parameter>"),
            "{\"a\": [1]}");
  // What claims to be JSON and isn't becomes a string.
  EXPECT_EQ(arguments_of(parameter("it's \"so\"\n", false)), R"({"a": "it's \"so\"\n"})");
  EXPECT_EQ(arguments_of(parameter("", false)), R"({"a": ""})");
  EXPECT_EQ(arguments_of(parameter("NaN", false)), R"({"a": "NaN"})");
  EXPECT_EQ(arguments_of(parameter("1 2", false)), R"({"a": "1 2"})");
  EXPECT_EQ(arguments_of(parameter("\uFEFF1", false)), "{\"a\": \"\uFEFF1\"}");
  EXPECT_EQ(arguments_of(parameter(std::string("1\0", 2), false)), R"({"a": "1\u0000"})");
  // JSON instead of parameters.
  EXPECT_EQ(arguments_of(" {\"x\": [1, \"<b>\"]} \n"), "{\"x\": [1, \"<b>\"]}");
  EXPECT_EQ(arguments_of("[1]"), "{}");
  EXPECT_EQ(arguments_of("{\"x\": "), "{}");
  EXPECT_EQ(arguments_of("junk" + parameter("1", false) + "junk"), "{\"a\": 1}");
  // Attributes that are no names.
  EXPECT_EQ(arguments_of("<｜DSML｜ parameter>1</｜DSML｜ parameter>"), "{\"\": 1}");
  EXPECT_EQ(arguments_of(parameter("1", false, "q\"uote")), R"({"q\"uote": 1})");
  EXPECT_EQ(arguments_of(parameter("1", false, "a>b")), R"({"a>b": 1})");
}

TEST(OutputParser, AnUnterminatedParameterEndsAtTheNextOneOrWithTheCall) {
  const std::string open = "<｜DSML｜ parameter name=\"a\" string=\"true\">v";
  EXPECT_EQ(arguments_of(open + parameter("1", false, "b")), R"({"a": "v", "b": 1})");
  EXPECT_EQ(arguments_of(open), R"({"a": "v\n"})");
  const ParsedMessage two = parse_every_way(
      "<｜DSML｜ calls><｜DSML｜ invoke name=\"f\">" + open + call("", "g"), with_calls());
  EXPECT_THAT(two.tool_calls, testing::ElementsAre(ParsedToolCall{"f", R"({"a": "v"})"},
                                                   ParsedToolCall{"g", "{}"}));
  EXPECT_EQ(
      parse_every_way("<｜DSML｜ invoke name=\"f\">" + open + "</｜DSML｜ calls>", with_calls())
          .tool_calls.at(0),
      (ParsedToolCall{"f", R"({"a": "v"})"}));
}

TEST(OutputParser, ACallThatTheModelLeavesOpenIsValidJsonButNotComplete) {
  const std::string text =
      "<｜DSML｜ invoke name=\"f\"><｜DSML｜ parameter name=\"a\" string=\"true\">v<";
  const ParsedMessage message = parse_every_way(text, with_calls());
  EXPECT_EQ(message.tool_calls.at(0).arguments, R"({"a": "v"})");
  EXPECT_EQ(message.finish_reason, "stop");
}

TEST(OutputParser, EveryCutOfACallKeepsItsPromises) {
  const std::string text =
      "r</think>\n\n" +
      block(call(parameter("l\n\"1\"", true) + "\n" + parameter("{\"k\": [1, true]}", false, "b"),
                 "查询") +
            "\n" + call("{\"x\": 1}", "g"));
  for (std::size_t end = 0; end <= text.size(); ++end) {
    SCOPED_TRACE(end);
    const std::string part = text.substr(0, end);
    const auto options = with_calls(OutputStart::kReasoning);
    const ParsedMessage stopped = parse_every_way(part, options, "stop");
    for (const ParsedToolCall& call : stopped.tool_calls) {
      EXPECT_TRUE(Json::accept(call.arguments)) << call.arguments;
    }
    const ParsedMessage cut = parse_every_way(part, options, "length");
    for (const ParsedToolCall& call : cut.tool_calls) {
      EXPECT_EQ(call.arguments.find("DSML"), std::string::npos) << call.arguments;
    }
  }
}

TEST(OutputParser, DeepJsonValuesAreTakenWithoutRecursion) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_EQ(
      parse_output(block(call(parameter(deep, false))), with_calls()).tool_calls.at(0).arguments,
      "{\"a\": \"" + deep + "\"}");
}

TEST(OutputParser, TheEndTokensSpellingIsText) {
  EXPECT_EQ(parse_every_way("a<｜end▁of▁sentence｜>b", with_calls()).content,
            "a<｜end▁of▁sentence｜>b");
}

TEST(OutputParser, StopSequencesCutContentAndEndIt) {
  OutputParserOptions options = with_calls(OutputStart::kReasoning);
  options.stop = {"STOP", "é!", ""};
  const ParsedMessage message =
      parse_every_way("STOP</think>a è éé! b " + block(call("")), options);
  EXPECT_EQ(message.reasoning, "STOP");
  EXPECT_EQ(message.content, "a è é");
  EXPECT_TRUE(message.tool_calls.empty());
  EXPECT_EQ(message.finish_reason, "stop");
  EXPECT_EQ(parse_every_way("x</think>STOP", options, "length").finish_reason, "stop");
  OutputParser parser(options);
  parser.push("</think>ST");
  EXPECT_FALSE(parser.stopped());
  parser.push("OP");
  EXPECT_TRUE(parser.stopped());
}

TEST(OutputParser, StopSequencesDontMatchMarkup) {
  OutputParserOptions options = with_calls();
  options.stop = {"<", ">", "DSML", "f"};
  const ParsedMessage message = parse_every_way("ok" + block(call(parameter("f", true))), options);
  EXPECT_EQ(message.content, "ok");
  EXPECT_EQ(message.tool_calls.at(0), (ParsedToolCall{"f", "{\"a\": \"f\"}"}));
  // A text that only begins like a stop sequence comes before the call.
  options.stop = {"okay"};
  EXPECT_EQ(parse_every_way("ok" + block(call("")), options).content, "ok");
}

TEST(StopMatcher, TakesTheSequenceThatEndsFirst) {
  // Against the definition, over all texts of five letters.
  const std::vector<std::string> sequences = {"ab", "bab", "aac", "ca"};
  std::string text(5, 'a');
  for (int number = 0; number < 243; ++number) {
    for (int i = 0, rest = number; i < 5; ++i, rest /= 3)
      text[i] = static_cast<char>('a' + rest % 3);
    std::string expected = text;
    for (std::size_t end = 1; end <= text.size() && expected == text; ++end) {
      for (const std::string& sequence : sequences) {
        if (!text.substr(0, end).ends_with(sequence)) continue;
        expected = std::min(expected, text.substr(0, end - sequence.size()),
                            [](const auto& a, const auto& b) { return a.size() < b.size(); });
      }
    }
    StopMatcher matcher(sequences);
    std::string out;
    for (const char byte : text) matcher.push({&byte, 1}, out);
    matcher.flush(out);
    EXPECT_EQ(out, expected) << text;
    EXPECT_EQ(matcher.matched(), expected != text) << text;
  }
}

TEST(StopMatcher, FindsASequenceThatRepeatsInside) {
  // Borders inside of borders: a matcher that forgets the inner one misses matches.
  for (const std::string sequence : {"aabaaab", "abaababaab", "aaaab"}) {
    for (unsigned number = 0; number < 1u << 14; ++number) {
      std::string text(14, 'a');
      for (int i = 0; i < 14; ++i) text[i] = (number >> i & 1u) != 0 ? 'a' : 'b';
      StopMatcher matcher({sequence});
      std::string out;
      matcher.push(text, out);
      matcher.flush(out);
      ASSERT_EQ(out, text.substr(0, text.find(sequence))) << text;
    }
  }
}

TEST(StripCodeFence, TakesOneSurroundingFenceOnly) {
  EXPECT_EQ(strip_code_fence("```json\n{\"a\": 1}\n```"), "{\"a\": 1}");
  EXPECT_EQ(strip_code_fence(" \n```\n[1]\n```\n"), "[1]");
  EXPECT_EQ(strip_code_fence("```json\n{\"a\": \"```\"}\n```"), "{\"a\": \"```\"}");
  for (const char* kept : {"", "{}", "```", "``````", "```json", "```{}```", "a\n```\n{}\n```",
                           "```\n1\n```\n```\n2\n```", "```\n{}"}) {
    EXPECT_EQ(strip_code_fence(kept), kept);
  }
}

}  // namespace
}  // namespace deepinfer
