#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"

namespace deepinfer {

struct ThreadPool::Impl {
  struct Job {
    const std::function<void(std::int64_t, std::int64_t, int)>* body = nullptr;
    std::int64_t count = 0;
    std::int64_t grain = 1;
  };

  std::vector<std::thread> workers;
  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable done;
  Job job;
  std::atomic<std::uint64_t> generation{0};
  std::atomic<int> running{0};
  bool stopping = false;
  std::exception_ptr error;

  int threads() const { return static_cast<int>(workers.size()) + 1; }

  void run_share(const Job& current, int thread) {
    const std::int64_t grains = (current.count + current.grain - 1) / current.grain;
    const std::int64_t begin = grains * thread / threads() * current.grain;
    const std::int64_t end =
        std::min(grains * (thread + 1) / threads() * current.grain, current.count);
    if (begin >= end) return;
    try {
      (*current.body)(begin, end, thread);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    wake.notify_all();
    for (std::thread& worker : workers) worker.join();
    workers.clear();
  }

  void work(int thread) {
    std::uint64_t seen = 0;
    while (true) {
      // A short spin before sleeping: within a forward pass the next job follows within
      // microseconds, and a futex round trip costs more than most small ops.
      for (int spin = 0; spin < 4000 && generation.load(std::memory_order_acquire) == seen;
           ++spin) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
      }
      Job current;
      {
        std::unique_lock lock(mutex);
        wake.wait(lock,
                  [&] { return stopping || generation.load(std::memory_order_relaxed) != seen; });
        if (stopping) return;
        seen = generation.load(std::memory_order_relaxed);
        current = job;
      }
      run_share(current, thread);
      if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        const std::lock_guard lock(mutex);
        done.notify_one();
      }
    }
  }
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  if (threads < 1) fail_argument("threads: " + std::to_string(threads) + "; expected at least 1");
  try {
    for (int thread = 1; thread < threads; ++thread) {
      impl_->workers.emplace_back([impl = impl_.get(), thread] { impl->work(thread); });
    }
  } catch (const std::exception& error) {
    const std::size_t started = impl_->workers.size() + 1;
    impl_->stop();
    fail(ErrorKind::kOutOfMemory, "threads: only " + std::to_string(started) + " of " +
                                      std::to_string(threads) +
                                      " could be started: " + error.what());
  }
}

ThreadPool::~ThreadPool() { impl_->stop(); }

int ThreadPool::threads() const { return impl_->threads(); }

void ThreadPool::parallel_for(std::int64_t count, std::int64_t grain,
                              const std::function<void(std::int64_t, std::int64_t, int)>& body) {
  if (count <= 0) return;
  if (impl_->workers.empty() || count <= grain) {
    body(0, count, 0);
    return;
  }
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->job = {&body, count, grain};
    impl_->running.store(static_cast<int>(impl_->workers.size()), std::memory_order_relaxed);
    impl_->generation.fetch_add(1, std::memory_order_release);
  }
  impl_->wake.notify_all();
  impl_->run_share(impl_->job, 0);
  for (int spin = 0; spin < 20000 && impl_->running.load(std::memory_order_acquire) != 0; ++spin) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  std::unique_lock lock(impl_->mutex);
  impl_->done.wait(lock, [&] { return impl_->running.load(std::memory_order_acquire) == 0; });
  if (impl_->error) {
    const std::exception_ptr error = std::exchange(impl_->error, nullptr);
    std::rethrow_exception(error);
  }
}

namespace {

int physical_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    return std::max(1U, std::thread::hardware_concurrency());
  }
  std::set<std::string> cores;
  int logical = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    ++logical;
    std::ifstream siblings("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                           "/topology/thread_siblings_list");
    std::string line;
    if (std::getline(siblings, line)) cores.insert(line);
  }
  return std::max(1, cores.empty() ? logical : static_cast<int>(cores.size()));
}

}  // namespace

int default_thread_count() {
  for (const char* name : {"DEEPINFER_NUM_THREADS", "OMP_NUM_THREADS"}) {
    const char* text = std::getenv(name);
    if (text == nullptr || *text == '\0') continue;
    int value = 0;
    const std::string_view view(text);
    const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
    if (error == std::errc() && end == view.data() + view.size() && value >= 1) return value;
    // OpenMP allows a list ("4,2"), which is not ours to judge; our own variable must be a number.
    if (std::string_view(name) == "DEEPINFER_NUM_THREADS") {
      fail_argument(std::string(name) + ": '" + text + "' is not a positive number of threads");
    }
  }
  return physical_cores();
}

}  // namespace deepinfer
