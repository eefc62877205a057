#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"

namespace deepinfer {

/// Bytes a second that the pool's threads read from memory: the median of several streaming sums
/// over a buffer of 256 MiB. The yardstick for every decode kernel, to be taken in the same
/// process.
double probe_read_bandwidth(ThreadPool& pool);

/// One measured product of a weight of real size with a few tokens.
struct GemvMeasurement {
  std::string name;  ///< format and shape, e.g. `fp8 2304x5120`
  std::int64_t tokens = 0;
  std::int64_t bytes = 0;  ///< of one weight with its scales
  double seconds = 0.0;    ///< median, one product
  double share = 0.0;      ///< bytes / seconds over the read bandwidth probed in the same rounds
};

/// Streams weights of the released model's shapes from memory (copies well beyond the caches) for
/// each stored format. Probe and product alternate, so that other load on the machine hits both.
/// Takes a few seconds and about 400 MiB.
std::vector<GemvMeasurement> measure_gemv(ThreadPool& pool, std::int64_t tokens = 1);

namespace cpu {
/// The sum of all 64-bit words, wrapping: a read that no compiler can leave out.
std::uint64_t stream_sum(std::span<const std::uint64_t> words);
}  // namespace cpu

}  // namespace deepinfer
