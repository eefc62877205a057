#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "text/tokenizer_file.h"

namespace deepinfer {

/// Turns one piece of text into ids by merging neighbours, the lowest rank first and the leftmost
/// of equal ranks. Constant after construction; the working memory is the caller's.
class BytePairEncoder {
 public:
  /// Memory of a running merge, reused from piece to piece.
  class Workspace {
   private:
    friend class BytePairEncoder;
    struct Candidate {
      std::uint32_t rank;
      std::uint32_t position;
      TokenId merged;
    };
    std::vector<TokenId> symbols_;
    std::vector<std::uint32_t> ranks_;
    std::vector<TokenId> merged_;
    std::vector<std::uint32_t> next_;
    std::vector<std::uint32_t> previous_;
    std::vector<Candidate> heap_;
  };

  /// `byte_tokens` are the ids of the 256 single bytes.
  BytePairEncoder(const std::vector<Merge>& merges, const std::array<TokenId, 256>& byte_tokens);

  /// Appends the ids of `piece` to `ids`. Pieces have fewer than 2^32 bytes.
  void encode(std::string_view piece, Workspace& workspace, std::vector<TokenId>& ids) const;

 private:
  static constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();

  struct Joined {
    std::uint32_t rank = kNoRank;
    TokenId merged = 0;
  };
  struct Slot {
    std::uint64_t pair;
    Joined joined;
  };

  Joined find(TokenId left, TokenId right) const;
  void encode_short(std::string_view piece, Workspace& workspace, std::vector<TokenId>& ids) const;
  void encode_long(std::string_view piece, Workspace& workspace, std::vector<TokenId>& ids) const;

  std::array<TokenId, 256> byte_tokens_;
  std::vector<Joined> byte_pairs_;  // by first byte * 256 + second byte
  std::vector<Slot> slots_;         // open addressing, at most half full
  int shift_ = 0;
};

}  // namespace deepinfer
