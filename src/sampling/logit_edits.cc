#include "sampling/logit_edits.h"

#include <algorithm>
#include <limits>

namespace deepinfer {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

bool inside(TokenId id, std::span<const float> logits) {
  return id >= 0 && static_cast<std::size_t>(id) < logits.size();
}

}  // namespace

void LogitEditor::apply(const LogitEdits& edits, std::span<float> logits) {
  mask(edits, logits);
  for (const auto& [id, bias] : edits.bias) {
    if (inside(id, logits)) logits[static_cast<std::size_t>(id)] += bias;
  }
  if (edits.repetition != 1.0F || edits.frequency != 0.0F || edits.presence != 0.0F) {
    penalize(edits, logits);
  }
}

void LogitEditor::mask(const LogitEdits& edits, std::span<float> logits) {
  if (edits.allowed) {
    flags_.resize(std::max(flags_.size(), logits.size()));
    for (const TokenId id : *edits.allowed) {
      if (inside(id, logits)) flags_[static_cast<std::size_t>(id)] = 1;
    }
    for (std::size_t id = 0; id < logits.size(); ++id) {
      if (flags_[id] == 0) logits[id] = kMinusInfinity;
    }
    for (const TokenId id : *edits.allowed) {
      if (inside(id, logits)) flags_[static_cast<std::size_t>(id)] = 0;
    }
  }
  for (const std::span<const TokenId> ids : edits.banned) {
    for (const TokenId id : ids) {
      if (inside(id, logits)) logits[static_cast<std::size_t>(id)] = kMinusInfinity;
    }
  }
}

void LogitEditor::penalize(const LogitEdits& edits, std::span<float> logits) {
  counts_.resize(std::max(counts_.size(), logits.size()));
  flags_.resize(std::max(flags_.size(), logits.size()));
  const std::array<std::span<const TokenId>, 3> histories = {edits.prompt, edits.output,
                                                             edits.drafts};
  const auto each_id = [&](auto&& body) {
    for (std::size_t list = 0; list < histories.size(); ++list) {
      for (const TokenId id : histories[list]) {
        if (inside(id, logits)) body(list, static_cast<std::size_t>(id));
      }
    }
  };
  each_id([&](std::size_t list, std::size_t id) {
    if (list > 0) ++counts_[id];
  });
  // `flags_` marks ids whose penalties are applied: a token counts once however often it occurs.
  each_id([&](std::size_t, std::size_t id) {
    if (flags_[id] != 0) return;
    flags_[id] = 1;
    float& logit = logits[id];
    if (edits.repetition != 1.0F) {
      logit = logit > 0.0F ? logit / edits.repetition : logit * edits.repetition;
    }
    if (counts_[id] > 0) {
      logit -= edits.frequency * static_cast<float>(counts_[id]) + edits.presence;
    }
  });
  each_id([&](std::size_t, std::size_t id) {
    counts_[id] = 0;
    flags_[id] = 0;
  });
}

}  // namespace deepinfer
