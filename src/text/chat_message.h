#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer {

enum class ChatRole { kSystem, kUser, kAssistant, kTool, kLatestReminder };

/// The name of the role in messages JSON.
std::string_view to_string(ChatRole role);

/// A place for an image inside a text.
struct ImageSlot {
  std::size_t offset = 0;  ///< in bytes; the image stands before the byte at this offset
  std::size_t image = 0;   ///< index into ChatConversation::images
};

/// Text of a message after its parts were joined. Image placeholders are not part of the text, so
/// that a user who types the placeholder's spelling gets plain text.
struct ChatText {
  std::string text;
  std::vector<ImageSlot> images;  ///< ascending offsets

  ChatText() = default;
  ChatText(std::string plain) : text(std::move(plain)) {}  // NOLINT: a text is a ChatText
  ChatText(const char* plain) : text(plain) {}             // NOLINT
  bool empty() const { return text.empty() && images.empty(); }
};

struct ChatToolCall {
  std::string id;
  std::string name;
  std::string arguments;  ///< JSON text, or anything else as it came
};

struct ChatMessage {
  ChatRole role = ChatRole::kUser;
  ChatText content;
  std::string reasoning;                 ///< assistant only; missing is the same as empty
  std::vector<ChatToolCall> tool_calls;  ///< assistant only
  std::string tool_call_id;              ///< tool only
  bool prefix = false;                   ///< assistant at the end: continue this message
};

struct ChatTool {
  std::string name;
  std::string description;
  std::string parameters = "null";  ///< JSON schema as text, spelled as python_json does
  std::optional<bool> strict;       ///< never rendered
  bool defer_loading = false;       ///< known to the caller, not shown to the model
};

enum class ToolChoice {
  kAuto,      ///< the model decides
  kNone,      ///< tools are not shown and calls are not parsed
  kRequired,  ///< the answer begins inside a calls block
};

struct ResponseFormat {
  enum class Kind { kText, kJsonObject, kJsonSchema, kRegex };
  Kind kind = Kind::kText;
  std::string schema;  ///< kJsonSchema: JSON text, spelled as python_json does
  std::string regex;   ///< kRegex
};

/// An image as the request names it; reading it is another room's work.
struct ChatImage {
  std::string url;  ///< a data URL, or http(s) where the caller allows it
  std::string detail = "auto";
};

/// Reasoning effort of the named levels (interface.md §7.1).
inline constexpr int kEffortLow = 50;
inline constexpr int kEffortHigh = 75;
inline constexpr int kEffortMax = 100;

/// Everything the prompt of a chat turn is made from.
struct ChatConversation {
  std::vector<ChatMessage> messages;
  std::vector<ChatImage> images;
  std::vector<ChatTool> tools;
  ToolChoice tool_choice = ToolChoice::kAuto;
  ResponseFormat response_format;
  bool thinking = true;
  int effort = kEffortHigh;  ///< 1-100, used only when thinking
};

/// Whether the model is shown tools: there is one that isn't deferred, and the choice isn't kNone.
bool shows_tools(const ChatConversation& conversation);

}  // namespace deepinfer
