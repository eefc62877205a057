#include "text/chat_request_messages.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "text/chat_request_fields.h"
#include "text/python_json.h"

namespace deepinfer {
namespace {

using Json = nlohmann::ordered_json;

bool is_tool_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

void check_tool_name(const std::string& name, const std::string& path) {
  if (!is_tool_name(name)) {
    fail_field(path, Json(name), "a name of the letters a-z and A-Z, digits, _ and -");
  }
}

class MessageReader {
 public:
  MessageReader(const ChatRequestOptions& options, ChatConversation& conversation,
                std::vector<std::string>& unknown)
      : options_(options), conversation_(conversation), unknown_(unknown) {}

  void read(const Json& value) {
    const Json& messages = read_array(value, "messages");
    if (messages.empty()) fail_field("messages", "found an empty list, expected a message");
    for (std::size_t i = 0; i < messages.size(); ++i) {
      read_message(messages[i], element_path("messages", i), i + 1 == messages.size());
    }
  }

 private:
  ChatRole read_role(RequestFields& fields) {
    const Json& value = fields.require("role", "a role");
    const std::string name = read_string(value, fields.path("role"));
    for (const ChatRole role : {ChatRole::kSystem, ChatRole::kUser, ChatRole::kAssistant,
                                ChatRole::kTool, ChatRole::kLatestReminder}) {
      if (name == to_string(role)) return role;
    }
    // OpenAI's newer name of the system role (interface.md §7.4).
    if (name == "developer" && !options_.strict_recipe) return ChatRole::kSystem;
    fail_field(fields.path("role"), value, "system, user, assistant, tool or latest_reminder");
  }

  void read_message(const Json& value, const std::string& path, bool last) {
    RequestFields fields(value, path);
    ChatMessage message;
    message.role = read_role(fields);
    const bool assistant = message.role == ChatRole::kAssistant;
    if (assistant) {
      read_assistant(fields, last, message);
    } else if (message.role == ChatRole::kTool) {
      message.tool_call_id = fields.required_text("tool_call_id");
      if (!call_ids_.contains(message.tool_call_id)) {
        fail_field(fields.path("tool_call_id"), Json(message.tool_call_id),
                   "the id of a call in an earlier assistant message");
      }
    }
    // An assistant message that only calls tools, or only reasons so far, has no content.
    const Json* content = assistant ? fields.find("content")
                                    : &fields.require("content", "a string or a list of parts");
    if (content != nullptr)
      message.content = read_content(*content, fields.path("content"), message.role);
    fields.ignore({"name"});
    fields.add_unknown(unknown_);
    conversation_.messages.push_back(std::move(message));
  }

  void read_assistant(RequestFields& fields, bool last, ChatMessage& message) {
    auto reasoning = fields.text("reasoning_content");
    if (!reasoning && !options_.strict_recipe) reasoning = fields.text("reasoning");
    message.reasoning = reasoning.value_or("");
    if (const Json* calls = fields.find("tool_calls")) {
      const std::string path = fields.path("tool_calls");
      for (const Json& call : read_array(*calls, path)) {
        const std::string call_path = element_path(path, message.tool_calls.size());
        message.tool_calls.push_back(read_call(call, call_path));
        call_ids_.insert(message.tool_calls.back().id);
      }
    }
    message.prefix = fields.boolean_or("prefix", false);
    if (message.prefix && !last) {
      fail_field(fields.path("prefix"), "only the last message can be continued");
    }
    if (message.prefix && !message.tool_calls.empty()) {
      fail_field(fields.path("prefix"), "a message with tool calls can't be continued");
    }
  }

  ChatToolCall read_call(const Json& value, const std::string& path) {
    RequestFields fields(value, path);
    ChatToolCall call;
    call.id = fields.required_text("id");
    if (const auto type = fields.text("type"); type && *type != "function") {
      fail_field(fields.path("type"), Json(*type), "\"function\"");
    }
    fields.ignore({"index"});
    const Json* function = fields.find("function");
    if (function == nullptr && (options_.strict_recipe || fields.find("name") == nullptr)) {
      fail_field(fields.path("function"), "missing, expected an object");
    }
    if (function == nullptr) {
      read_function(fields, call);
    } else {
      RequestFields inner(*function, fields.path("function"));
      read_function(inner, call);
      inner.add_unknown(unknown_);
    }
    fields.add_unknown(unknown_);
    return call;
  }

  void read_function(RequestFields& fields, ChatToolCall& call) {
    call.name = fields.required_text("name");
    const Json& arguments = fields.require("arguments", "a string");
    if (arguments.is_object() && !options_.strict_recipe) {
      call.arguments = python_json(arguments);
    } else {
      call.arguments = read_string(arguments, fields.path("arguments"));
    }
  }

  ChatText read_content(const Json& value, const std::string& path, ChatRole role) {
    if (value.is_string()) return value.get<std::string>();
    if (!value.is_array()) fail_field(path, value, "a string or a list of parts");
    ChatText content;
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i > 0) content.text += "\n\n";
      read_part(value[i], element_path(path, i), role, content);
    }
    return content;
  }

  void read_part(const Json& value, const std::string& path, ChatRole role, ChatText& content) {
    RequestFields fields(value, path);
    const std::string type = fields.required_text("type");
    if (type == "text") {
      content.text += fields.required_text("text");
    } else if (type == "image_url") {
      if (role != ChatRole::kUser && role != ChatRole::kTool) {
        fail_field(path, "images are possible in user and tool messages only");
      }
      content.images.push_back({content.text.size(), conversation_.images.size()});
      RequestFields image(fields.require("image_url", "an object"), fields.path("image_url"));
      conversation_.images.push_back(read_image(image));
      image.add_unknown(unknown_);
    } else {
      fail_field(fields.path("type"), Json(type), "\"text\" or \"image_url\"");
    }
    fields.add_unknown(unknown_);
  }

  ChatImage read_image(RequestFields& fields) {
    ChatImage image;
    image.url = fields.required_text("url");
    const bool data = image.url.starts_with("data:");
    const bool http = image.url.starts_with("http://") || image.url.starts_with("https://");
    if (!data && !(http && options_.allow_http_images)) {
      fail_field(fields.path("url"), Json(image.url),
                 options_.allow_http_images ? "a data, http or https URL" : "a data URL");
    }
    image.detail = fields.text("detail").value_or("auto");
    if (image.detail != "low" && image.detail != "high" && image.detail != "original" &&
        image.detail != "auto") {
      fail_field(fields.path("detail"), Json(image.detail), "low, high, original or auto");
    }
    return image;
  }

  const ChatRequestOptions& options_;
  ChatConversation& conversation_;
  std::vector<std::string>& unknown_;
  std::set<std::string> call_ids_;
};

ChatTool read_tool(RequestFields& fields) {
  ChatTool tool;
  tool.name = fields.required_text("name");
  check_tool_name(tool.name, fields.path("name"));
  tool.description = fields.text("description").value_or("");
  if (const Json* parameters = fields.find("parameters")) {
    if (!parameters->is_object()) fail_field(fields.path("parameters"), *parameters, "an object");
    tool.parameters = python_json(*parameters);
  }
  if (fields.find("strict") != nullptr) tool.strict = fields.boolean_or("strict", false);
  tool.defer_loading = fields.boolean_or("defer_loading", false);
  return tool;
}

}  // namespace

void read_messages(const Json& value, const ChatRequestOptions& options,
                   ChatConversation& conversation, std::vector<std::string>& unknown) {
  MessageReader(options, conversation, unknown).read(value);
}

std::vector<ChatTool> read_tools(const Json& value, const ChatRequestOptions& options,
                                 std::vector<std::string>& unknown) {
  std::vector<ChatTool> tools;
  for (const Json& element : read_array(value, "tools")) {
    RequestFields fields(element, element_path("tools", tools.size()));
    if (const auto type = fields.text("type"); type && *type != "function") {
      fail_field(fields.path("type"), Json(*type), "\"function\"");
    }
    const Json* function = fields.find("function");
    if (function == nullptr && (options.strict_recipe || fields.find("name") == nullptr)) {
      fail_field(fields.path("function"), "missing, expected an object");
    }
    if (function == nullptr) {
      tools.push_back(read_tool(fields));
    } else {
      RequestFields inner(*function, fields.path("function"));
      tools.push_back(read_tool(inner));
      inner.add_unknown(unknown);
      if (fields.boolean_or("defer_loading", false)) tools.back().defer_loading = true;
    }
    fields.add_unknown(unknown);
  }
  return tools;
}

}  // namespace deepinfer
