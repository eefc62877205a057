#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace deepinfer {

/// Changes to one row of logits before temperature, in their order of application (engine.md 16.6):
/// masks, logit bias, repetition penalty, frequency and presence penalties. Views; ids outside the
/// row are ignored (`logit_bias` of an unknown token has no effect).
struct LogitEdits {
  /// Sets of ids that become -infinity: grammar, blacklist, bad words, EOS before min_tokens.
  std::array<std::span<const TokenId>, 4> banned;
  /// All other ids become -infinity.
  std::optional<std::span<const TokenId>> allowed;
  std::span<const std::pair<TokenId, float>> bias;
  float repetition = 1.0F;
  float frequency = 0.0F;
  float presence = 0.0F;
  /// Histories for the penalties. Drafts before the row count as output.
  std::span<const TokenId> prompt;
  std::span<const TokenId> output;
  std::span<const TokenId> drafts;
};

/// Applies edits; holds scratch, so one object serves one thread.
class LogitEditor {
 public:
  void apply(const LogitEdits& edits, std::span<float> logits);

 private:
  void mask(const LogitEdits& edits, std::span<float> logits);
  void penalize(const LogitEdits& edits, std::span<float> logits);

  std::vector<std::int32_t> counts_;  ///< per id; all 0 between calls
  std::vector<std::uint8_t> flags_;   ///< per id; all 0 between calls
};

}  // namespace deepinfer
