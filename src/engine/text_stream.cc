#include "engine/text_stream.h"

#include <algorithm>
#include <string_view>

namespace deepinfer {

TextStream::TextStream(const Tokenizer& tokenizer, std::vector<std::string> stop)
    : tokenizer_(&tokenizer),
      stop_(std::move(stop)),
      kept_detokenizer_(tokenizer, false),
      plain_detokenizer_(tokenizer, true) {}

TextStream::Delta TextStream::push(TokenId token, bool match_stop) {
  if (token >= 0 && token < tokenizer_->id_limit()) {
    kept_ += kept_detokenizer_.push(token);
    plain_ += plain_detokenizer_.push(token);
    if (tokenizer_->is_special(token)) {
      const std::size_t bytes = tokenizer_->token_bytes(token).size();
      special_.emplace_back(kept_.size() - bytes, kept_.size());
    }
  }
  if (!match_stop) return release(kept_.size());
  if (find_stop()) return release(kept_.size());
  return release(kept_.size() - held_back());
}

TextStream::Delta TextStream::finish() {
  if (match_ < 0) {
    kept_ += kept_detokenizer_.finish();
    plain_ += plain_detokenizer_.finish();
  }
  return release(kept_.size());
}

/// Cuts the text at the earliest match that begins in what is held back. What was released can't be
/// the beginning of one.
bool TextStream::find_stop() {
  std::size_t earliest = std::string::npos;
  for (std::size_t i = 0; i < stop_.size(); ++i) {
    const std::size_t place = kept_.find(stop_[i], released_);
    if (place != std::string::npos && (earliest == std::string::npos || place < earliest)) {
      earliest = place;
      match_ = static_cast<int>(i);
    }
  }
  if (match_ < 0) return false;
  plain_.resize(std::min(plain_.size(), plain_released_ + plain_bytes(released_, earliest)));
  kept_.resize(earliest);
  return true;
}

/// The longest end of the text that is a beginning of some stop string.
std::size_t TextStream::held_back() const {
  const std::string_view open = std::string_view(kept_).substr(released_);
  std::size_t longest = 0;
  for (const std::string& stop : stop_) {
    for (std::size_t length = std::min(open.size(), stop.size() - 1); length > longest; --length) {
      if (open.substr(open.size() - length) == std::string_view(stop).substr(0, length)) {
        longest = length;
      }
    }
  }
  return longest;
}

std::size_t TextStream::plain_bytes(std::size_t begin, std::size_t end) const {
  std::size_t special = 0;
  for (auto range = special_.rbegin(); range != special_.rend() && range->second > begin; ++range) {
    const std::size_t first = std::max(begin, range->first);
    const std::size_t last = std::min(end, range->second);
    if (last > first) special += last - first;
  }
  return end - begin - special;
}

TextStream::Delta TextStream::release(std::size_t end) {
  Delta delta;
  // Both texts hold back the same plain bytes.
  const std::size_t plain_held = std::min(plain_bytes(end, kept_.size()), plain_.size());
  const std::size_t plain_end = std::max(plain_released_, plain_.size() - plain_held);
  delta.text = kept_.substr(released_, end - released_);
  delta.text_skip_special = plain_.substr(plain_released_, plain_end - plain_released_);
  released_ = end;
  plain_released_ = plain_end;
  return delta;
}

}  // namespace deepinfer
