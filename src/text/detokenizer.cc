#include "text/detokenizer.h"

#include "text/utf8.h"

namespace deepinfer {

std::string Detokenizer::push(TokenId id) {
  const std::string_view bytes = tokenizer_->token_bytes(id);
  if (skip_special_ && tokenizer_->is_special(id)) return {};
  pending_ += bytes;
  std::string text;
  const std::size_t held = append_utf8_lossy(pending_, true, text);
  pending_.erase(0, pending_.size() - held);
  return text;
}

std::string Detokenizer::finish() {
  std::string text;
  append_utf8_lossy(pending_, false, text);
  pending_.clear();
  return text;
}

}  // namespace deepinfer
