#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/regex.h"
#include "text/tokenizer_file.h"

namespace deepinfer {

/// Cuts text into the pieces inside which merges happen: step after step, each on the pieces that
/// the step before left. This is the general path, by PCRE2; scan_official_pieces() is the fast
/// one.
class PreTokenizer {
 public:
  /// Throws Error(kCheckpoint) naming `origin` on a pattern that isn't supported.
  PreTokenizer(const std::vector<SplitStep>& steps, const std::string& origin);

  /// The pieces of `text` (valid UTF-8), in order; joined they are the text.
  std::vector<std::string_view> split(std::string_view text) const;

 private:
  std::vector<Regex> patterns_;
};

/// Whether the steps are those of the official tokenizer, which scan_official_pieces() knows.
bool is_official_split(const std::vector<SplitStep>& steps);

}  // namespace deepinfer
