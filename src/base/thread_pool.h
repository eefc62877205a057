#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace deepinfer {

/// A fixed set of worker threads that split an index range statically: no stealing, so what a
/// thread computes depends on the range and the thread count alone. The calling thread works too.
class ThreadPool {
 public:
  /// `threads` >= 1, counting the caller.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  /// Calls body(begin, end, thread) on disjoint ranges that cover [0, count), each a multiple of
  /// `grain` long but for the last, and returns when all are done. The first exception of a body is
  /// rethrown here. Not reentrant: a body must not call parallel_for of the same pool.
  void parallel_for(std::int64_t count, std::int64_t grain,
                    const std::function<void(std::int64_t, std::int64_t, int)>& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// DEEPINFER_NUM_THREADS, else OMP_NUM_THREADS, else the number of physical cores this process may
/// use. Throws Error(kInvalidArgument) naming the variable when its value is not a positive number.
int default_thread_count();

}  // namespace deepinfer
