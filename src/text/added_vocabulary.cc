#include "text/added_vocabulary.h"

#include <algorithm>

namespace deepinfer {
namespace {

template <typename Edges>
auto find_edge(Edges& edges, std::uint8_t byte) {
  return std::find_if(edges.begin(), edges.end(),
                      [byte](const auto& edge) { return edge.byte == byte; });
}

}  // namespace

void AddedTokenFinder::add(std::string_view content, TokenId id) {
  begins_[static_cast<std::uint8_t>(content.front())] = true;
  std::uint32_t node = 0;
  for (const char character : content) {
    const auto byte = static_cast<std::uint8_t>(character);
    const auto edge = find_edge(nodes_[node].edges, byte);
    if (edge != nodes_[node].edges.end()) {
      node = edge->node;
    } else {
      const auto created = static_cast<std::uint32_t>(nodes_.size());
      nodes_[node].edges.push_back({byte, created});
      nodes_.emplace_back();
      node = created;
    }
  }
  nodes_[node].token = id;
}

std::optional<AddedTokenFinder::Match> AddedTokenFinder::find(std::string_view text,
                                                              std::size_t offset) const {
  for (std::size_t begin = offset; begin < text.size(); ++begin) {
    if (!begins_[static_cast<std::uint8_t>(text[begin])]) continue;
    std::optional<Match> longest;
    const Node* node = nodes_.data();
    for (std::size_t at = begin; at < text.size(); ++at) {
      const auto edge = find_edge(node->edges, static_cast<std::uint8_t>(text[at]));
      if (edge == node->edges.end()) break;
      node = &nodes_[edge->node];
      if (node->token != kNoToken) longest = Match{begin, at + 1, node->token};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

}  // namespace deepinfer
