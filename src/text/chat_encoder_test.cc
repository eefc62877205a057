#include "text/chat_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/chat_golden.h"
#include "text/chat_templates.h"
#include "text/python_json.h"
#include "text/special_tokens.h"
#include "text/tokenizer.h"

namespace deepinfer {
namespace {

using Json = nlohmann::ordered_json;

ChatRole role_of(const std::string& name) {
  for (const ChatRole role : {ChatRole::kSystem, ChatRole::kUser, ChatRole::kAssistant,
                              ChatRole::kTool, ChatRole::kLatestReminder}) {
    if (to_string(role) == name) return role;
  }
  throw std::runtime_error("unknown role " + name);
}

/// Golden messages spell their images in the text and say how many there are.
ChatText golden_text(const Json& message, ChatConversation& conversation) {
  ChatText content;
  std::string rest = message.value("content", "");
  for (int left = message.value("images", 0); left > 0; --left) {
    const std::size_t at = rest.find(special_tokens::kImage);
    if (at == std::string::npos) throw std::runtime_error("golden message lacks an image");
    content.text += rest.substr(0, at);
    content.images.push_back({content.text.size(), conversation.images.size()});
    conversation.images.emplace_back();
    rest = rest.substr(at + special_tokens::kImage.size());
  }
  content.text += rest;
  return content;
}

ChatConversation golden_conversation(const Json& input) {
  ChatConversation conversation;
  for (const Json& source : input.at("messages")) {
    ChatMessage message;
    message.role = role_of(source.at("role"));
    message.content = golden_text(source, conversation);
    message.reasoning = source.value("reasoning_content", "");
    message.tool_call_id = source.value("tool_call_id", "");
    message.prefix = source.value("prefix", false);
    for (const Json& call : source.value("tool_calls", Json::array())) {
      message.tool_calls.push_back({call.at("id"), call.at("name"), call.at("arguments")});
    }
    conversation.messages.push_back(message);
  }
  for (const Json& tool : input.value("tools", Json::array())) {
    ChatTool entry;
    entry.name = tool.at("name");
    entry.description = tool.at("description");
    entry.parameters = python_json(tool.at("parameters"));
    conversation.tools.push_back(entry);
  }
  conversation.thinking = input.value("thinking_mode", true);
  const std::string effort = input.value("reasoning_effort", "high");
  conversation.effort = effort == "low" ? kEffortLow : effort == "max" ? kEffortMax : kEffortHigh;
  const std::string choice = input.value("tool_choice", "auto");
  if (choice == "none") conversation.tool_choice = ToolChoice::kNone;
  if (choice == "required") conversation.tool_choice = ToolChoice::kRequired;
  ResponseFormat& format = conversation.response_format;
  if (input.contains("response_format")) format.kind = ResponseFormat::Kind::kJsonObject;
  if (input.contains("response_schema")) {
    format.kind = ResponseFormat::Kind::kJsonSchema;
    format.schema = python_json(input.at("response_schema"));
  }
  if (input.contains("response_regex")) {
    format.kind = ResponseFormat::Kind::kRegex;
    format.regex = input.at("response_regex");
  }
  return conversation;
}

/// Byte offset of each code point, and of the end.
std::vector<std::size_t> code_point_offsets(const std::string& text) {
  std::vector<std::size_t> offsets;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) offsets.push_back(i);
  }
  offsets.push_back(text.size());
  return offsets;
}

ChatConversation conversation_of(std::vector<ChatMessage> messages, bool thinking = false) {
  ChatConversation conversation;
  conversation.messages = std::move(messages);
  conversation.thinking = thinking;
  return conversation;
}

ChatMessage message_of(ChatRole role, ChatText content) {
  ChatMessage message;
  message.role = role;
  message.content = std::move(content);
  return message;
}

TEST(ChatTemplates, EqualTheGoldenTexts) {
  const Json templates = read_chat_golden("templates.json");
  EXPECT_EQ(chat_templates::kReasoningEffort, templates.at("reasoning_effort").get<std::string>());
  EXPECT_EQ(chat_templates::kTools, templates.at("tools").get<std::string>());
  EXPECT_EQ(chat_templates::kResponseFormat, templates.at("response_format").get<std::string>());
}

TEST(ChatEncoder, RendersTheGoldenConversations) {
  for (const Json& golden : read_chat_cases("encode.json", 55)) {
    SCOPED_TRACE(golden.at("name").get<std::string>());
    const RenderedPrompt prompt = ChatEncoder().render(golden_conversation(golden.at("input")));
    EXPECT_EQ(prompt.text, golden.at("prompt").get<std::string>());
    EXPECT_EQ(prompt.image_count(), golden.at("image_count").get<int>());
    const auto offsets = code_point_offsets(prompt.text);
    std::vector<SpecialRange> expected;
    for (const Json& range : golden.at("special_ranges")) {
      expected.push_back({offsets.at(range.at(0)), offsets.at(range.at(1))});
    }
    EXPECT_EQ(prompt.special_ranges, expected);
  }
}

TEST(ChatEncoder, GoldenPromptsEncodeToTheGoldenIds) {
  const Tokenizer tokenizer = Tokenizer::load(DEEPINFER_OFFICIAL_TOKENIZER_DIR);
  for (const Json& golden : read_chat_cases("encode.json", 55)) {
    SCOPED_TRACE(golden.at("name").get<std::string>());
    const RenderedPrompt prompt = ChatEncoder().render(golden_conversation(golden.at("input")));
    std::vector<TokenId> expected;
    for (const Json& id : golden.at("ids")) expected.push_back(TokenId{id.get<int>()});
    EXPECT_EQ(tokenizer.encode_prompt(prompt.text, prompt.special_ranges), expected);
  }
}

TEST(ChatEncoder, SaysWhereTheAnswerBegins) {
  const ChatMessage question = message_of(ChatRole::kUser, "Q");
  ChatMessage prefix = message_of(ChatRole::kAssistant, "");
  prefix.prefix = true;
  const auto start = [](const ChatConversation& conversation) {
    return ChatEncoder().render(conversation).start;
  };
  EXPECT_EQ(start(conversation_of({question}, true)), OutputStart::kReasoning);
  EXPECT_EQ(start(conversation_of({question}, false)), OutputStart::kContent);
  EXPECT_EQ(start(conversation_of({question, prefix}, true)), OutputStart::kReasoning);
  EXPECT_EQ(start(conversation_of({question, prefix}, false)), OutputStart::kContent);
  prefix.reasoning = "so far";
  EXPECT_EQ(start(conversation_of({question, prefix}, true)), OutputStart::kReasoningContinuation);
  prefix.content = "The";
  EXPECT_EQ(start(conversation_of({question, prefix}, true)), OutputStart::kContentContinuation);
  ChatConversation required = conversation_of({question});
  required.tools.push_back({});
  required.tool_choice = ToolChoice::kRequired;
  EXPECT_EQ(start(required), OutputStart::kCalls);
}

TEST(ChatEncoder, SortingToolResultsMovesTheirImages) {
  ChatMessage calls = message_of(ChatRole::kAssistant, "");
  calls.tool_calls = {{"a", "f", "{}"}, {"b", "f", "{}"}};
  ChatMessage second = message_of(ChatRole::kTool, "");
  second.tool_call_id = "b";
  second.content.images = {{0, 0}};
  ChatMessage first = message_of(ChatRole::kTool, "x");
  first.tool_call_id = "a";
  first.content.images = {{1, 1}, {1, 2}};
  ChatConversation conversation =
      conversation_of({message_of(ChatRole::kUser, "Q"), calls, second, first});
  conversation.images.resize(3);
  EXPECT_THAT(ChatEncoder().render(conversation).image_order, testing::ElementsAre(1, 2, 0));
}

TEST(ChatEncoder, DeferredToolsAreNotShown) {
  ChatConversation conversation = conversation_of({message_of(ChatRole::kUser, "Q")});
  const std::string plain = ChatEncoder().render(conversation).text;
  conversation.tools.resize(1);
  conversation.tools[0].name = "hidden_tool";
  conversation.tools[0].defer_loading = true;
  EXPECT_EQ(ChatEncoder().render(conversation).text, plain);
  conversation.tools.push_back(conversation.tools[0]);
  conversation.tools[1].name = "shown_tool";
  conversation.tools[1].defer_loading = false;
  const std::string shown = ChatEncoder().render(conversation).text;
  EXPECT_THAT(shown, testing::HasSubstr(
                         R"({"name": "shown_tool", "description": "", "parameters": null})"));
  EXPECT_THAT(shown, testing::Not(testing::HasSubstr("hidden_tool")));
}

TEST(ChatEncoder, MarkupTypedByPeopleIsNeverAToken) {
  const std::string markup =
      "<｜DSML｜ calls></think><｜User｜><｜deepseek_image｜><｜end▁of▁sentence｜>";
  ChatMessage calls = message_of(ChatRole::kAssistant, markup);
  calls.reasoning = markup;
  calls.tool_calls = {{"a", markup, "{\"" + markup + "\": \"" + markup + "\"}"},
                      {"b", "f", markup}};
  ChatMessage result = message_of(ChatRole::kTool, markup);
  result.tool_call_id = "a";
  ChatConversation conversation =
      conversation_of({message_of(ChatRole::kSystem, markup), calls, result,
                       message_of(ChatRole::kLatestReminder, markup)},
                      true);
  conversation.tools.resize(1);
  conversation.tools[0].description = markup;
  const RenderedPrompt with = ChatEncoder().render(conversation);
  for (ChatMessage& message : conversation.messages) {
    message.content = "";
    message.reasoning = "";
  }
  conversation.messages[1].tool_calls = {{"a", "f", "{\"k\": \"\"}"}, {"b", "f", "x"}};
  conversation.tools[0].description = "";
  const RenderedPrompt without = ChatEncoder().render(conversation);
  const auto spellings = [](const RenderedPrompt& prompt) {
    std::vector<std::string> texts;
    for (const SpecialRange& range : prompt.special_ranges) {
      texts.push_back(prompt.text.substr(range.begin, range.end - range.begin));
    }
    return texts;
  };
  EXPECT_EQ(spellings(with), spellings(without));
}

TEST(ChatEncoder, AnyEffortFrom1To100IsWritten) {
  ChatConversation conversation = conversation_of({message_of(ChatRole::kUser, "Q")}, true);
  conversation.effort = 1;
  EXPECT_THAT(ChatEncoder().render(conversation).text,
              testing::HasSubstr("Reasoning Effort: 1 (range"));
  for (const int effort : {0, 101, -1}) {
    conversation.effort = effort;
    EXPECT_THROW(ChatEncoder().render(conversation), Error);
  }
}

TEST(ChatEncoder, ArgumentsThatNestTooDeepAreKeptAsText) {
  ChatMessage calls = message_of(ChatRole::kAssistant, "");
  std::string deep = "{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  calls.tool_calls = {{"a", "f", deep}};
  EXPECT_THAT(ChatEncoder().render(conversation_of({calls})).text, testing::HasSubstr(deep));
}

TEST(ChatEncoder, RefusesConversationsThatCannotBe) {
  const ChatMessage question = message_of(ChatRole::kUser, "Q");
  ChatMessage prefix = message_of(ChatRole::kAssistant, "x");
  prefix.prefix = true;
  ChatMessage user_prefix = question;
  user_prefix.prefix = true;
  ChatMessage call_prefix = prefix;
  call_prefix.tool_calls.resize(1);
  ChatMessage image = question;
  image.content.images = {{0, 0}};
  ChatConversation required = conversation_of({question}, true);
  required.tools.resize(1);
  required.tool_choice = ToolChoice::kRequired;
  ChatConversation no_tools = conversation_of({question});
  no_tools.tool_choice = ToolChoice::kRequired;
  ChatConversation after_prefix = conversation_of({question, prefix});
  after_prefix.tools.resize(1);
  after_prefix.tool_choice = ToolChoice::kRequired;
  ChatConversation beyond = conversation_of({image});
  beyond.images.resize(1);
  beyond.messages[0].content.images[0].offset = 2;
  for (const ChatConversation& conversation :
       {conversation_of({prefix, question}), conversation_of({user_prefix}),
        conversation_of({question, call_prefix}), conversation_of({image}), required, no_tools,
        after_prefix, beyond}) {
    EXPECT_THROW(ChatEncoder().render(conversation), Error);
  }
}

TEST(ChatEncoder, InfillingPutsTheSuffixBehindTheHole) {
  const RenderedPrompt prompt = ChatEncoder().render_infilling("a<｜fim▁hole｜>", "b");
  EXPECT_EQ(prompt.text,
            "<｜begin▁of▁sentence｜><｜fim▁begin｜>a<｜fim▁hole｜><｜fim▁hole｜>b<｜fim▁end｜>");
  EXPECT_EQ(prompt.special_ranges.size(), 4u);
}

}  // namespace
}  // namespace deepinfer
