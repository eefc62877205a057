#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace deepinfer::cli {

struct KernelTiming {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t bytes = 0;  ///< of one matrix with its scales
  double seconds = 0;      ///< for one matrix, best of several passes

  double bytes_per_second() const { return static_cast<double>(bytes) / seconds; }
};

struct KernelReport {
  int threads = 0;
  double read_bandwidth = 0;  ///< bytes per second, of the same threads in the same process
  std::vector<KernelTiming> kernels;
};

/// Products of one row with stored weights of the real model's sizes (docs/numerics.md), each pass
/// over more matrices than the caches hold: what decoding a single sequence is limited by.
/// `threads` 0: as the engine takes them.
KernelReport bench_kernels(int threads);

}  // namespace deepinfer::cli
