#include "text/byte_pair_encoder.h"

#include <algorithm>
#include <bit>

namespace deepinfer {
namespace {

constexpr std::uint64_t kNoPair = std::numeric_limits<std::uint64_t>::max();

// Above this many bytes a heap finds the next merge; below, looking at every rank is faster.
constexpr std::size_t kShortPiece = 128;

std::uint64_t pair_of(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

std::size_t slot_of(std::uint64_t pair, int shift) {
  return static_cast<std::size_t>(((pair ^ (pair >> 29)) * 0x9E3779B97F4A7C15u) >> shift);
}

}  // namespace

BytePairEncoder::BytePairEncoder(const std::vector<Merge>& merges,
                                 const std::array<TokenId, 256>& byte_tokens)
    : byte_tokens_(byte_tokens) {
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(2 * merges.size(), 16));
  shift_ = 64 - std::countr_zero(size);
  slots_.assign(size, {kNoPair, {}});
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::uint64_t pair = pair_of(merges[rank].left, merges[rank].right);
    std::size_t slot = slot_of(pair, shift_);
    while (slots_[slot].pair != kNoPair) slot = (slot + 1) & (size - 1);
    slots_[slot] = {pair, {static_cast<std::uint32_t>(rank), merges[rank].merged}};
  }
  byte_pairs_.resize(std::size_t{256} * 256);
  for (std::size_t first = 0; first < 256; ++first) {
    for (std::size_t second = 0; second < 256; ++second) {
      byte_pairs_[first * 256 + second] = find(byte_tokens_[first], byte_tokens_[second]);
    }
  }
}

BytePairEncoder::Joined BytePairEncoder::find(TokenId left, TokenId right) const {
  const std::uint64_t pair = pair_of(left, right);
  for (std::size_t slot = slot_of(pair, shift_);; slot = (slot + 1) & (slots_.size() - 1)) {
    if (slots_[slot].pair == pair) return slots_[slot].joined;
    if (slots_[slot].pair == kNoPair) return {};
  }
}

void BytePairEncoder::encode(std::string_view piece, Workspace& workspace,
                             std::vector<TokenId>& ids) const {
  if (piece.size() <= kShortPiece) {
    encode_short(piece, workspace, ids);
  } else {
    encode_long(piece, workspace, ids);
  }
}

void BytePairEncoder::encode_short(std::string_view piece, Workspace& workspace,
                                   std::vector<TokenId>& ids) const {
  if (piece.empty()) return;
  workspace.symbols_.resize(kShortPiece + 1);
  workspace.ranks_.resize(kShortPiece + 1);
  workspace.merged_.resize(kShortPiece + 1);
  TokenId* symbols = workspace.symbols_.data();
  std::uint32_t* ranks = workspace.ranks_.data();  // of each symbol with its right neighbour
  TokenId* merged = workspace.merged_.data();

  std::size_t count = piece.size();
  const auto byte = [piece](std::size_t index) { return static_cast<std::uint8_t>(piece[index]); };
  for (std::size_t index = 0; index < count; ++index) {
    symbols[index] = byte_tokens_[byte(index)];
    if (index + 1 == count) break;
    const Joined joined = byte_pairs_[byte(index) * std::size_t{256} + byte(index + 1)];
    ranks[index] = joined.rank;
    merged[index] = joined.merged;
  }
  while (count > 1) {
    std::size_t best = 0;
    std::uint32_t best_rank = ranks[0];
    for (std::size_t index = 1; index + 1 < count; ++index) {
      if (ranks[index] < best_rank) {
        best_rank = ranks[index];
        best = index;
      }
    }
    if (best_rank == kNoRank) break;
    symbols[best] = merged[best];
    --count;
    std::copy(symbols + best + 2, symbols + count + 1, symbols + best + 1);
    std::copy(ranks + best + 1, ranks + count, ranks + best);
    std::copy(merged + best + 1, merged + count, merged + best);
    const auto refresh = [&](std::size_t index) {
      const Joined joined = find(symbols[index], symbols[index + 1]);
      ranks[index] = joined.rank;
      merged[index] = joined.merged;
    };
    if (best > 0) refresh(best - 1);
    if (best + 1 < count) refresh(best);
  }
  ids.insert(ids.end(), symbols, symbols + count);
}

void BytePairEncoder::encode_long(std::string_view piece, Workspace& workspace,
                                  std::vector<TokenId>& ids) const {
  constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  constexpr TokenId kConsumed = -1;
  const auto count = static_cast<std::uint32_t>(piece.size());
  auto& symbols = workspace.symbols_;
  auto& next = workspace.next_;
  auto& previous = workspace.previous_;
  auto& heap = workspace.heap_;
  symbols.resize(std::max<std::size_t>(count, kShortPiece + 1));
  next.resize(count);
  previous.resize(count);
  heap.clear();
  const auto comes_later = [](const Workspace::Candidate& a, const Workspace::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  };
  const auto add = [&](std::uint32_t position, Joined joined) {
    if (joined.rank != kNoRank) heap.push_back({joined.rank, position, joined.merged});
  };
  for (std::uint32_t index = 0; index < count; ++index) {
    symbols[index] = byte_tokens_[static_cast<std::uint8_t>(piece[index])];
    previous[index] = index == 0 ? kNone : index - 1;
    next[index] = index + 1 == count ? kNone : index + 1;
  }
  for (std::uint32_t index = 0; index + 1 < count; ++index) {
    add(index, find(symbols[index], symbols[index + 1]));
  }
  std::make_heap(heap.begin(), heap.end(), comes_later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), comes_later);
    const Workspace::Candidate best = heap.back();
    heap.pop_back();
    const std::uint32_t position = best.position;
    const std::uint32_t right = next[position];
    // The pair may have changed since it was queued: its rank tells.
    if (symbols[position] == kConsumed || right == kNone ||
        find(symbols[position], symbols[right]).rank != best.rank) {
      continue;
    }
    symbols[position] = best.merged;
    symbols[right] = kConsumed;
    next[position] = next[right];
    if (next[right] != kNone) previous[next[right]] = position;
    const auto requeue = [&](std::uint32_t left) {
      const std::size_t before = heap.size();
      add(left, find(symbols[left], symbols[next[left]]));
      if (heap.size() != before) std::push_heap(heap.begin(), heap.end(), comes_later);
    };
    if (previous[position] != kNone) requeue(previous[position]);
    if (next[position] != kNone) requeue(position);
  }
  for (std::uint32_t index = 0; index != kNone; index = next[index]) ids.push_back(symbols[index]);
}

}  // namespace deepinfer
