#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace deepinfer {
namespace {

TEST(ThreadPool, CoversEachIndexOnceForAnyCountAndGrain) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (const std::int64_t count : {0, 1, 2, 7, 64, 1000}) {
      for (const std::int64_t grain : {1, 3, 16}) {
        std::vector<std::atomic<int>> hits(static_cast<std::size_t>(count));
        pool.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
          EXPECT_EQ(begin % grain, 0);
          EXPECT_LT(thread, threads);
          for (std::int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
        });
        for (const auto& hit : hits) ASSERT_EQ(hit, 1);
      }
    }
  }
}

TEST(ThreadPool, RethrowsAnExceptionOfAWorkerAndStaysUsable) {
  ThreadPool pool(3);
  for (int round = 0; round < 20; ++round) {
    EXPECT_THROW(pool.parallel_for(30, 1,
                                   [](std::int64_t, std::int64_t end, int) {
                                     if (end == 30) throw std::runtime_error("last");
                                   }),
                 std::runtime_error);
    std::atomic<std::int64_t> sum = 0;
    pool.parallel_for(30, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) sum += i;
    });
    EXPECT_EQ(sum, 435);
  }
}

}  // namespace
}  // namespace deepinfer
