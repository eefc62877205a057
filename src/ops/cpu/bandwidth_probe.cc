#include "ops/cpu/bandwidth_probe.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "ops/cpu/cpu_ops.h"

namespace deepinfer {
namespace {

/// Far larger than a last-level cache (32 MiB on many machines).
constexpr std::int64_t kProbeBytes = std::int64_t{256} << 20;
constexpr int kRounds = 9;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <typename Body>
double seconds_of(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Memory full of codes that are finite in every format, written by the threads that read it.
class Stream {
 public:
  explicit Stream(ThreadPool& pool) : pool_(pool), words_(buffer_.reserve(kWords)) {
    pool_.parallel_for(kWords, 512, [&](std::int64_t first, std::int64_t last, int) {
      for (std::int64_t i = first; i < last; ++i) {
        // A byte's top bits stay below NaN and infinity, as E4M3, BF16 and float32.
        words_[i] = (static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15U) & 0xb3b3b3b3b3b3b3b3U;
      }
    });
  }

  double read_seconds() {
    return seconds_of([&] {
      pool_.parallel_for(kWords, 512, [&](std::int64_t first, std::int64_t last, int) {
        sink_.fetch_add(cpu::stream_sum({words_ + first, static_cast<std::size_t>(last - first)}),
                        std::memory_order_relaxed);
      });
    });
  }

  const std::byte* data() const { return reinterpret_cast<const std::byte*>(words_); }

 private:
  static constexpr std::int64_t kWords = kProbeBytes / 8;
  ThreadPool& pool_;
  cpu::GrowBuffer<std::uint64_t> buffer_;
  std::uint64_t* words_;
  std::atomic<std::uint64_t> sink_{0};
};

struct GemvCase {
  const char* name;
  WeightFormat format;
  std::int64_t rows;
  std::int64_t cols;
};

/// Shapes of the released model: an expert's gate and down, the query's second projection, the
/// indexer's and the head's rows (a slice).
constexpr GemvCase kCases[] = {
    {"fp8 2304x5120", WeightFormat::kFp8Block32, 2304, 5120},
    {"fp8 5120x2304", WeightFormat::kFp8Block32, 5120, 2304},
    {"fp8 32768x1280", WeightFormat::kFp8Block32, 32768, 1280},
    {"mxfp4 2304x5120", WeightFormat::kFp4Group32, 2304, 5120},
    {"mxfp4 5120x2304", WeightFormat::kFp4Group32, 5120, 2304},
    {"bf16 8192x5120", WeightFormat::kBF16, 8192, 5120},
    {"f32 24x20480", WeightFormat::kF32, 24, 20480},
};

}  // namespace

double probe_read_bandwidth(ThreadPool& pool) {
  Stream stream(pool);
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) seconds.push_back(stream.read_seconds());
  return static_cast<double>(kProbeBytes) / median(seconds);
}

std::vector<GemvMeasurement> measure_gemv(ThreadPool& pool, std::int64_t tokens) {
  Stream stream(pool);
  CpuOps ops(pool);
  std::vector<GemvMeasurement> measured;
  std::vector<std::uint8_t> scales;
  std::vector<float> x;
  std::vector<float> y;
  for (const GemvCase& c : kCases) {
    LinearWeight weight{c.format, nullptr, nullptr, c.rows, c.cols};
    const std::int64_t bytes = weight.rows * weight.row_bytes();
    const std::int64_t copies = kProbeBytes / bytes;
    const std::int64_t scale_bytes =
        c.format == WeightFormat::kFp8Block32   ? (c.rows + 31) / 32 * weight.scale_cols()
        : c.format == WeightFormat::kFp4Group32 ? c.rows * weight.scale_cols()
                                                : 0;
    scales.assign(static_cast<std::size_t>(scale_bytes * copies), 120);
    x.assign(static_cast<std::size_t>(tokens * c.cols), 0.5F);
    y.resize(static_cast<std::size_t>(tokens * c.rows));
    std::vector<double> read;
    std::vector<double> product;
    for (int round = 0; round < kRounds; ++round) {
      read.push_back(stream.read_seconds());
      product.push_back(seconds_of([&] {
        for (std::int64_t copy = 0; copy < copies; ++copy) {
          weight.data = stream.data() + copy * bytes;
          weight.scale = scales.data() + copy * scale_bytes;
          ops.linear({x.data(), tokens, c.cols}, weight, {y.data(), tokens, c.rows});
        }
      }));
    }
    GemvMeasurement row{c.name, tokens, bytes + scale_bytes,
                        median(product) / static_cast<double>(copies), 0.0};
    const double bandwidth = static_cast<double>(kProbeBytes) / median(read);
    row.share = static_cast<double>(row.bytes) / row.seconds / bandwidth;
    measured.push_back(row);
  }
  return measured;
}

}  // namespace deepinfer
