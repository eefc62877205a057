#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "text/chat_message.h"
#include "text/chat_request.h"

// Internal to the room: the parts of a request that make its conversation.

namespace deepinfer {

/// Reads `messages` into the conversation's messages and images and checks their order.
void read_messages(const nlohmann::ordered_json& value, const ChatRequestOptions& options,
                   ChatConversation& conversation, std::vector<std::string>& unknown);

std::vector<ChatTool> read_tools(const nlohmann::ordered_json& value,
                                 const ChatRequestOptions& options,
                                 std::vector<std::string>& unknown);

}  // namespace deepinfer
