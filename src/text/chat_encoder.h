#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_message.h"
#include "text/output_parser.h"
#include "text/special_range.h"

namespace deepinfer {

/// A prompt ready for Tokenizer::encode_prompt.
struct RenderedPrompt {
  std::string text;                          ///< UTF-8
  std::vector<SpecialRange> special_ranges;  ///< bytes of `text` that are control tokens, ascending
  /// The images in the order of their placeholders in `text`, as indices into
  /// ChatConversation::images. Sorting tool results moves their images, so this isn't 0, 1, 2, ...
  std::vector<std::size_t> image_order;
  OutputStart start = OutputStart::kContent;  ///< where the parser of the answer begins

  int image_count() const { return static_cast<int>(image_order.size()); }
};

/// Renders conversations in the V4.1 chat format (interface.md §7). Stateless.
class ChatEncoder {
 public:
  /// Throws Error(kInvalidArgument) naming the message or field: effort outside 1-100, a prefix
  /// that isn't the last message or isn't from the assistant, an image slot that doesn't fit, calls
  /// required while thinking, after a prefix or without tools.
  RenderedPrompt render(const ChatConversation& conversation) const;

  /// The fill-in-the-middle form of a completion with a suffix (interface.md §7.3), BOS included.
  RenderedPrompt render_infilling(std::string_view prefix, std::string_view suffix) const;
};

}  // namespace deepinfer
