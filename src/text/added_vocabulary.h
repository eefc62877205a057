#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace deepinfer {

/// Finds the spellings of added tokens in text: the leftmost, and of those that start there the
/// longest.
class AddedTokenFinder {
 public:
  struct Match {
    std::size_t begin;
    std::size_t end;
    TokenId id;
  };

  /// `content` must not be empty.
  void add(std::string_view content, TokenId id);

  /// The first match that starts at `offset` or later.
  std::optional<Match> find(std::string_view text, std::size_t offset) const;

 private:
  static constexpr TokenId kNoToken = -1;

  struct Edge {
    std::uint8_t byte;
    std::uint32_t node;
  };
  struct Node {
    TokenId token = kNoToken;
    std::vector<Edge> edges;
  };

  std::vector<Node> nodes_ = {Node{}};  // a trie over bytes, the root first
  std::array<bool, 256> begins_{};
};

}  // namespace deepinfer
