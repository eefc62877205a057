#pragma once

#include <string_view>

// Internal to the room: the fixed texts of the V4.1 chat format. The model was trained on these
// very bytes (golden/chat/templates.json). Each has one slot, which the encoder fills.

namespace deepinfer::chat_templates {

inline constexpr std::string_view kEffortSlot = "{effort}";
inline constexpr std::string_view kToolsSlot = "{schemas}";
inline constexpr std::string_view kResponseFormatSlot = "{schema}";

extern const std::string_view kReasoningEffort;
extern const std::string_view kTools;
extern const std::string_view kResponseFormat;

}  // namespace deepinfer::chat_templates
