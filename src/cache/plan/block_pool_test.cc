#include "cache/plan/block_pool.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace deepinfer {
namespace {

TEST(BlockPool, HandsOutEachIdOnceAndNeverZero) {
  BlockPool pool(5);
  std::set<std::int32_t> seen;
  while (pool.available() > 0) seen.insert(pool.allocate());
  EXPECT_EQ(seen, (std::set<std::int32_t>{1, 2, 3, 4, 5}));
  EXPECT_THROW(pool.allocate(), Error);
}

TEST(BlockPool, KeepsAnIdUntilItsLastReferenceIsDropped) {
  BlockPool pool(1);
  const std::int32_t id = pool.allocate();
  pool.add_reference(id);
  pool.release(id);
  EXPECT_EQ(pool.available(), 0);
  pool.release(id);
  EXPECT_EQ(pool.available(), 1);
  EXPECT_THROW(pool.release(id), Error);
  EXPECT_THROW(pool.add_reference(0), Error);
}

}  // namespace
}  // namespace deepinfer
