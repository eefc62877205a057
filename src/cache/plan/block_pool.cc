#include "cache/plan/block_pool.h"

#include <string>

#include "base/error.h"

namespace deepinfer {

BlockPool::BlockPool(std::int32_t count) : references_(static_cast<std::size_t>(count) + 1) {
  free_.reserve(static_cast<std::size_t>(count));
  for (std::int32_t id = count; id >= 1; --id) free_.push_back(id);
}

std::int32_t BlockPool::allocate() {
  if (free_.empty()) fail_internal("block pool: no free id left");
  const std::int32_t id = free_.back();
  free_.pop_back();
  references_[static_cast<std::size_t>(id)] = 1;
  return id;
}

std::int32_t& BlockPool::references(std::int32_t id) {
  if (id < 1 || id > capacity() || references_[static_cast<std::size_t>(id)] == 0) {
    fail_internal("block pool: id " + std::to_string(id) + " is not in use");
  }
  return references_[static_cast<std::size_t>(id)];
}

void BlockPool::add_reference(std::int32_t id) { ++references(id); }

void BlockPool::release(std::int32_t id) {
  if (--references(id) == 0) free_.push_back(id);
}

}  // namespace deepinfer
