#include "text/chat_encoder.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "text/chat_templates.h"
#include "text/python_json.h"
#include "text/special_tokens.h"

namespace deepinfer {
namespace {

using namespace special_tokens;  // NOLINT(google-build-using-namespace): a table of names

/// Builds the text and notes where control tokens and images lie.
class PromptWriter {
 public:
  void plain(std::string_view text) { prompt_.text += text; }

  void token(std::string_view spelling) {
    const std::size_t begin = prompt_.text.size();
    prompt_.text += spelling;
    prompt_.special_ranges.push_back({begin, prompt_.text.size()});
  }

  /// Text that belongs to the format: the spellings of control tokens in it are the tokens.
  void format(std::string_view text) {
    static constexpr std::array kTokens = {kDsml, kThinkBegin, kThinkEnd};
    while (!text.empty()) {
      std::size_t at = std::string_view::npos;
      std::string_view found;
      for (const std::string_view spelling : kTokens) {
        if (const std::size_t hit = text.find(spelling); hit < at) {
          at = hit;
          found = spelling;
        }
      }
      plain(text.substr(0, at));
      if (found.empty()) return;
      token(found);
      text.remove_prefix(at + found.size());
    }
  }

  /// A fixed text with its slot filled by plain text.
  void fill(std::string_view fixed_text, std::string_view slot, std::string_view value) {
    const std::size_t at = fixed_text.find(slot);
    format(fixed_text.substr(0, at));
    plain(value);
    format(fixed_text.substr(at + slot.size()));
  }

  void content(const ChatText& content) {
    std::size_t done = 0;
    for (const ImageSlot& slot : content.images) {
      plain(std::string_view(content.text).substr(done, slot.offset - done));
      token(kImage);
      prompt_.image_order.push_back(slot.image);
      done = slot.offset;
    }
    plain(std::string_view(content.text).substr(done));
  }

  RenderedPrompt finish(OutputStart start) {
    prompt_.start = start;
    return std::move(prompt_);
  }

 private:
  RenderedPrompt prompt_;
};

/// One block of a user turn.
struct TurnBlock {
  const ChatMessage* message;
  std::size_t order;     ///< of tool results: the index of the call they answer
  std::size_t position;  ///< in the turn, so that equals keep their order
};

using CallOrder = std::map<std::string, std::size_t, std::less<>>;

CallOrder call_order(const ChatMessage& assistant) {
  CallOrder order;
  for (std::size_t i = 0; i < assistant.tool_calls.size(); ++i) {
    order.try_emplace(assistant.tool_calls[i].id, i);
  }
  return order;
}

bool is_turn_part(const ChatMessage& message) {
  return message.role == ChatRole::kUser || message.role == ChatRole::kTool;
}

/// Sorts the tool results among themselves; text blocks keep their places (interface.md §7.2).
void sort_results(std::vector<TurnBlock>& blocks) {
  std::vector<TurnBlock> results;
  for (const TurnBlock& block : blocks) {
    if (block.message->role == ChatRole::kTool) results.push_back(block);
  }
  std::sort(results.begin(), results.end(), [](const TurnBlock& a, const TurnBlock& b) {
    return std::tie(a.order, a.position) < std::tie(b.order, b.position);
  });
  auto next = results.begin();
  for (TurnBlock& block : blocks) {
    if (block.message->role == ChatRole::kTool) block = *next++;
  }
}

class ConversationRenderer {
 public:
  explicit ConversationRenderer(const ChatConversation& conversation)
      : conversation_(conversation), shows_tools_(shows_tools(conversation)) {}

  RenderedPrompt render() {
    check();
    const auto& messages = conversation_.messages;
    const bool required = conversation_.tool_choice == ToolChoice::kRequired;
    out_.token(kBeginOfSentence);
    // Without any message there is nothing that an effort could be about.
    if (!messages.empty() || has_head()) head();
    std::size_t next = !messages.empty() && messages[0].role == ChatRole::kSystem ? 1 : 0;
    while (next < messages.size()) next = message(next);
    if (!messages.empty() && messages.back().prefix) return out_.finish(prefix_start());

    out_.token(kAssistant);
    out_.token(conversation_.thinking ? kThinkBegin : kThinkEnd);
    if (required) {
      out_.format("\n\n<｜DSML｜ calls>\n");
      return out_.finish(OutputStart::kCalls);
    }
    return out_.finish(conversation_.thinking ? OutputStart::kReasoning : OutputStart::kContent);
  }

 private:
  void check() const;

  bool writes_format() const {
    const auto kind = conversation_.response_format.kind;
    return kind == ResponseFormat::Kind::kJsonObject || kind == ResponseFormat::Kind::kJsonSchema;
  }

  /// Tools or a format attach to the opening system message, an empty one if there is none.
  bool has_head() const { return shows_tools_ || writes_format(); }

  void head() {
    const auto& messages = conversation_.messages;
    const bool system_first = !messages.empty() && messages[0].role == ChatRole::kSystem;
    if (conversation_.thinking) {
      out_.token(kSystem);
      out_.fill(chat_templates::kReasoningEffort, chat_templates::kEffortSlot,
                std::to_string(conversation_.effort));
    } else if (system_first || has_head()) {
      out_.token(kSystem);
    }
    if (system_first) out_.content(messages[0].content);
    if (shows_tools_) tools();
    if (writes_format()) response_format();
  }

  void tools() {
    std::string schemas;
    for (const ChatTool& tool : conversation_.tools) {
      if (tool.defer_loading) continue;
      if (!schemas.empty()) schemas += '\n';
      schemas += "{\"name\": " + json_string(tool.name);
      schemas += ", \"description\": " + json_string(tool.description);
      schemas += ", \"parameters\": " + tool.parameters + "}";
    }
    out_.plain("\n\n");
    out_.fill(chat_templates::kTools, chat_templates::kToolsSlot, schemas);
  }

  void response_format() {
    const ResponseFormat& format = conversation_.response_format;
    const bool any_object = format.kind == ResponseFormat::Kind::kJsonObject;
    out_.plain("\n\n");
    out_.fill(chat_templates::kResponseFormat, chat_templates::kResponseFormatSlot,
              any_object ? "{\"type\": \"json_object\"}" : format.schema);
  }

  /// Renders the message at `index` and those that share its turn; returns the index after them.
  std::size_t message(std::size_t index) {
    const ChatMessage& message = conversation_.messages[index];
    switch (message.role) {
      case ChatRole::kUser:
      case ChatRole::kTool:
        return user_turn(index);
      case ChatRole::kSystem:
        out_.token(kSystem);
        out_.content(message.content);
        break;
      case ChatRole::kLatestReminder:
        out_.token(kLatestReminder);
        out_.content(message.content);
        break;
      case ChatRole::kAssistant:
        assistant(message);
        break;
    }
    return index + 1;
  }

  std::size_t user_turn(std::size_t begin) {
    std::vector<TurnBlock> blocks;
    std::size_t index = begin;
    for (; index < conversation_.messages.size(); ++index) {
      const ChatMessage& message = conversation_.messages[index];
      if (!is_turn_part(message)) break;
      const auto call = last_calls_.find(message.tool_call_id);
      blocks.push_back({&message, call == last_calls_.end() ? 0 : call->second, blocks.size()});
    }
    sort_results(blocks);
    out_.token(kUser);
    const char* separator = "";
    for (const TurnBlock& block : blocks) {
      const bool result = block.message->role == ChatRole::kTool;
      out_.plain(separator);
      if (result) out_.plain("<tool_result>");
      out_.content(block.message->content);
      if (result) out_.plain("</tool_result>");
      separator = "\n\n";
    }
    return index;
  }

  void assistant(const ChatMessage& message) {
    if (!message.tool_calls.empty()) last_calls_ = call_order(message);
    out_.token(kAssistant);
    if (message.prefix) {
      prefix(message);
      return;
    }
    // Reasoning of earlier turns stays only where tools are declared (interface.md §7.2, 4).
    if (conversation_.thinking && shows_tools_) {
      out_.token(kThinkBegin);
      out_.plain(message.reasoning);
    }
    out_.token(kThinkEnd);
    out_.content(message.content);
    if (!message.tool_calls.empty()) calls(message);
    out_.token(kEndOfSentence);
  }

  void prefix(const ChatMessage& message) {
    if (conversation_.thinking) {
      out_.token(kThinkBegin);
      out_.plain(message.reasoning);
      if (message.content.empty()) return;
    }
    out_.token(kThinkEnd);
    out_.content(message.content);
  }

  OutputStart prefix_start() const {
    const ChatMessage& message = conversation_.messages.back();
    if (!message.content.empty()) return OutputStart::kContentContinuation;
    if (!conversation_.thinking) return OutputStart::kContent;
    return message.reasoning.empty() ? OutputStart::kReasoning
                                     : OutputStart::kReasoningContinuation;
  }

  void calls(const ChatMessage& message) {
    out_.format("\n\n<｜DSML｜ calls>\n");
    const char* separator = "";
    for (const ChatToolCall& call : message.tool_calls) {
      out_.plain(separator);
      out_.format("<｜DSML｜ invoke name=\"");
      out_.plain(call.name);
      out_.plain("\">\n");
      arguments(call.arguments);
      out_.format("\n</｜DSML｜ invoke>");
      separator = "\n";
    }
    out_.format("\n</｜DSML｜ calls>");
  }

  void arguments(const std::string& text) {
    const auto object = parse_json_value(text);
    if (!object || !object->is_object()) {
      parameter("arguments", true, text);
      return;
    }
    const char* separator = "";
    for (const auto& [key, value] : object->items()) {
      out_.plain(separator);
      if (value.is_string()) {
        parameter(key, true, value.get_ref<const std::string&>());
      } else {
        parameter(key, false, python_json(value));
      }
      separator = "\n";
    }
  }

  void parameter(std::string_view name, bool is_string, std::string_view value) {
    out_.format("<｜DSML｜ parameter name=\"");
    out_.plain(name);
    out_.plain(is_string ? "\" string=\"true\">" : "\" string=\"false\">");
    out_.plain(value);
    out_.format("</｜DSML｜ parameter>");
  }

  const ChatConversation& conversation_;
  const bool shows_tools_;
  PromptWriter out_;
  CallOrder last_calls_;  ///< of the last assistant message that has calls
};

void check_slots(const ChatText& content, std::size_t images, const std::string& where) {
  std::size_t previous = 0;
  for (const ImageSlot& slot : content.images) {
    if (slot.offset < previous || slot.offset > content.text.size() || slot.image >= images) {
      fail_argument(where + ".content: image slot at byte " + std::to_string(slot.offset) +
                    " for image " + std::to_string(slot.image) +
                    " doesn't fit, expected ascending offsets inside the text and one of " +
                    std::to_string(images) + " images");
    }
    previous = slot.offset;
  }
}

void ConversationRenderer::check() const {
  const auto& messages = conversation_.messages;
  if (conversation_.thinking && (conversation_.effort < 1 || conversation_.effort > 100)) {
    fail_argument("effort: found " + std::to_string(conversation_.effort) + ", expected 1-100");
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string where = "messages[" + std::to_string(i) + "]";
    check_slots(messages[i].content, conversation_.images.size(), where);
    if (!messages[i].prefix) continue;
    if (messages[i].role != ChatRole::kAssistant || i + 1 != messages.size()) {
      fail_argument(where +
                    ".prefix: only the last message can be continued, and only if its role "
                    "is assistant");
    }
    if (!messages[i].tool_calls.empty()) {
      fail_argument(where + ".prefix: a message with tool calls can't be continued");
    }
  }
  if (conversation_.tool_choice == ToolChoice::kRequired) {
    if (conversation_.thinking) fail_argument("tool_choice: required is impossible while thinking");
    if (!shows_tools_) fail_argument("tool_choice: required needs tools");
    if (!messages.empty() && messages.back().prefix) {
      fail_argument("tool_choice: required can't follow a message with prefix");
    }
  }
}

}  // namespace

std::string_view to_string(ChatRole role) {
  switch (role) {
    case ChatRole::kSystem:
      return "system";
    case ChatRole::kUser:
      return "user";
    case ChatRole::kAssistant:
      return "assistant";
    case ChatRole::kTool:
      return "tool";
    case ChatRole::kLatestReminder:
      return "latest_reminder";
  }
  return "unknown";
}

bool shows_tools(const ChatConversation& conversation) {
  return conversation.tool_choice != ToolChoice::kNone &&
         std::any_of(conversation.tools.begin(), conversation.tools.end(),
                     [](const ChatTool& tool) { return !tool.defer_loading; });
}

RenderedPrompt ChatEncoder::render(const ChatConversation& conversation) const {
  return ConversationRenderer(conversation).render();
}

RenderedPrompt ChatEncoder::render_infilling(std::string_view prefix,
                                             std::string_view suffix) const {
  PromptWriter out;
  out.token(kBeginOfSentence);
  out.token(kFimBegin);
  out.plain(prefix);
  out.token(kFimHole);
  out.plain(suffix);
  out.token(kFimEnd);
  return out.finish(OutputStart::kContent);
}

}  // namespace deepinfer
