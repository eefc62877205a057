#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace deepinfer {

/// Remembers the ids of short pieces of text. A place holds one piece, a newcomer replaces it. Not
/// thread-safe: each running encode borrows a cache of its own.
class PieceCache {
 public:
  static constexpr std::size_t kMaxPieceBytes = 31;
  static constexpr std::size_t kMaxIds = 7;

  /// A piece as it is looked up: its bytes, zeros, and in the last byte its length.
  struct Key {
    std::array<std::uint64_t, 4> words{};

    friend bool operator==(const Key&, const Key&) = default;
  };

  PieceCache() : entries_(kEntries) {}

  /// `piece` has at most kMaxPieceBytes bytes; up to `readable` bytes may be read from its start.
  static Key key_of(std::string_view piece, std::size_t readable) {
    Key key;
    if (readable >= sizeof key.words) {
      std::memcpy(key.words.data(), piece.data(), sizeof key.words);
      // Clears the bytes behind the piece; cheaper than a copy of varying length.
      const std::size_t full = piece.size() / 8;
      key.words[full] &= (std::uint64_t{1} << piece.size() % 8 * 8) - 1;
      for (std::size_t word = full + 1; word < key.words.size(); ++word) key.words[word] = 0;
    } else {
      std::memcpy(key.words.data(), piece.data(), piece.size());
    }
    key.words[3] |= static_cast<std::uint64_t>(piece.size()) << 56;
    return key;
  }

  /// The ids of the piece, if it is there. The view holds until the next insert().
  std::optional<std::span<const TokenId>> find(const Key& key) const {
    const Entry& entry = entries_[place_of(key)];
    if (entry.key != key) return std::nullopt;
    return std::span<const TokenId>(entry.ids.data(), entry.count);
  }

  /// `ids` holds at most kMaxIds.
  void insert(const Key& key, std::span<const TokenId> ids) {
    Entry& entry = entries_[place_of(key)];
    entry.key = key;
    entry.count = static_cast<std::uint32_t>(ids.size());
    std::memcpy(entry.ids.data(), ids.data(), ids.size_bytes());
  }

 private:
  static constexpr int kPlaceBits = 15;  // 2 MiB of entries: they stay in a core's cache
  static constexpr std::size_t kEntries = std::size_t{1} << kPlaceBits;

  // One cache line. An empty entry has the key of no piece: its length is zero.
  struct alignas(64) Entry {
    Key key;
    std::array<TokenId, kMaxIds> ids{};
    std::uint32_t count = 0;
  };

  static std::size_t place_of(const Key& key) {
    const std::uint64_t mixed =
        (key.words[0] * 0x9E3779B97F4A7C15u) ^ (key.words[1] * 0xC2B2AE3D27D4EB4Fu) ^
        (key.words[2] * 0x165667B19E3779F9u) ^ (key.words[3] * 0xD6E8FEB86659FD93u);
    return static_cast<std::size_t>((mixed ^ mixed >> 32) * 0x9E3779B97F4A7C15u >>
                                    (64 - kPlaceBits));
  }

  std::vector<Entry> entries_;
};

}  // namespace deepinfer
