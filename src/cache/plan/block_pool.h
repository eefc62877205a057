#pragma once

#include <cstdint>
#include <vector>

namespace deepinfer {

/// Ids of equal units of memory (cache blocks, state slots) with reference counts. Ids run from 1:
/// id 0 is never handed out, so that a table entry of 0 is always a mistake.
class BlockPool {
 public:
  /// `count` usable ids, 1 .. count.
  explicit BlockPool(std::int32_t count);

  std::int32_t capacity() const { return static_cast<std::int32_t>(references_.size()) - 1; }
  std::int32_t available() const { return static_cast<std::int32_t>(free_.size()); }

  /// An id with one reference. Throws Error(kInternal) when none is available: callers ask first.
  std::int32_t allocate();
  void add_reference(std::int32_t id);
  /// Drops one reference; the id is available again when none is left. Throws Error(kInternal) for
  /// an id that is not in use.
  void release(std::int32_t id);

 private:
  std::int32_t& references(std::int32_t id);

  std::vector<std::int32_t> references_;
  std::vector<std::int32_t> free_;
};

}  // namespace deepinfer
