#include "bench_kernels.h"

#include <algorithm>
#include <memory>

#include "base/thread_pool.h"
#include "ops/cpu/bandwidth_probe.h"
#include "ops/cpu/cpu_ops.h"
#include "output.h"

namespace deepinfer::cli {
namespace {

// What one pass reads: more than the caches of large servers hold.
constexpr std::int64_t kPassBytes = std::int64_t{768} << 20;
constexpr int kPasses = 5;

struct KernelShape {
  const char* name;
  WeightFormat format;
  std::int64_t rows;
  std::int64_t cols;
};

// Matrices of DeepSeek-V4.1-Flash (model.md 3): hidden 5120, experts 2304 wide, 64 heads of 512.
constexpr KernelShape kShapes[] = {
    {"attention wq_b, FP8", WeightFormat::kFp8Block32, 32768, 1280},
    {"attention wo_b, FP8", WeightFormat::kFp8Block32, 5120, 8192},
    {"shared expert w1, FP8", WeightFormat::kFp8Block32, 2304, 5120},
    {"routed expert w1, MXFP4", WeightFormat::kFp4Group32, 2304, 5120},
    {"routed expert w2, MXFP4", WeightFormat::kFp4Group32, 5120, 2304},
    {"head, BF16", WeightFormat::kBF16, 129280, 5120},
};

std::int64_t scale_bytes(const LinearWeight& weight) {
  if (weight.format == WeightFormat::kFp8Block32) {
    return (weight.rows + 31) / 32 * weight.scale_cols();
  }
  return weight.format == WeightFormat::kFp4Group32 ? weight.rows * weight.scale_cols() : 0;
}

// Weights of one shape, one after the other in memory, with contents that decode to finite numbers.
class WeightRow {
 public:
  explicit WeightRow(const KernelShape& shape) {
    LinearWeight weight{shape.format, nullptr, nullptr, shape.rows, shape.cols};
    const std::int64_t data = weight.row_bytes() * weight.rows;
    bytes_ = data + scale_bytes(weight);
    const std::int64_t count = std::max<std::int64_t>(1, kPassBytes / bytes_);
    memory_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(count * bytes_));
    std::uint64_t state = 88172645463325252U;
    for (std::int64_t i = 0; i < count; ++i) {
      std::byte* begin = memory_.get() + i * bytes_;
      for (std::int64_t at = 0; at < data; ++at) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        // Bits 0x40 cleared: no NaN of E4M3, no infinity of BF16.
        begin[at] = static_cast<std::byte>(state >> 56 & 0xBF);
      }
      std::fill(begin + data, begin + bytes_, std::byte{127});  // scales of one
      weight.data = begin;
      weight.scale = reinterpret_cast<const std::uint8_t*>(begin + data);
      weights_.push_back(weight);
    }
  }

  const std::vector<LinearWeight>& weights() const { return weights_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<LinearWeight> weights_;
};

KernelTiming time_shape(Ops& ops, const KernelShape& shape) {
  const WeightRow row(shape);
  std::vector<float> x(static_cast<std::size_t>(shape.cols), 0.5F);
  std::vector<float> y(static_cast<std::size_t>(shape.rows));
  const auto pass = [&] {
    for (const LinearWeight& weight : row.weights()) {
      ops.linear({x.data(), 1, shape.cols}, weight, {y.data(), 1, shape.rows});
    }
  };
  pass();
  double best = 1e300;
  for (int i = 0; i < kPasses; ++i) {
    const double start = monotonic_seconds();
    pass();
    best = std::min(best, monotonic_seconds() - start);
  }
  return {shape.name, shape.rows, shape.cols, row.bytes(),
          best / static_cast<double>(row.weights().size())};
}

}  // namespace

KernelReport bench_kernels(int threads) {
  ThreadPool pool(threads > 0 ? threads : default_thread_count());
  CpuOps ops(pool);
  KernelReport report;
  report.threads = pool.threads();
  report.read_bandwidth = probe_read_bandwidth(pool);
  for (const KernelShape& shape : kShapes) report.kernels.push_back(time_shape(ops, shape));
  // Other programs may have slowed the first probe; the limit is the better of two.
  report.read_bandwidth = std::max(report.read_bandwidth, probe_read_bandwidth(pool));
  return report;
}

}  // namespace deepinfer::cli
