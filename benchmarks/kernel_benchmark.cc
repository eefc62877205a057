// Speed of the CPU kernels on shapes of the released model. Decode kernels report GB/s and `share`,
// their part of the read bandwidth probed in this process; prefill kernels report GFLOP/s.
//
//   kernel_benchmark --benchmark_filter=Gemv
//
// Threads: DEEPINFER_NUM_THREADS, else the physical cores.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "ops/cpu/bandwidth_probe.h"
#include "ops/ops.h"

namespace deepinfer {
namespace {

struct Bench {
  ThreadPool pool{default_thread_count()};
  std::unique_ptr<Ops> ops = make_cpu_ops(pool);
  double bandwidth = probe_read_bandwidth(pool);
};

Bench& bench() {
  static Bench shared;
  return shared;
}

/// Copies of one weight that together exceed any cache; codes are finite in every format.
class Weights {
 public:
  Weights(WeightFormat format, std::int64_t rows, std::int64_t cols)
      : weight_{format, nullptr, nullptr, rows, cols} {
    constexpr std::int64_t kBytes = std::int64_t{256} << 20;
    bytes_ = rows * weight_.row_bytes();
    scale_bytes_ = format == WeightFormat::kFp8Block32   ? (rows + 31) / 32 * weight_.scale_cols()
                   : format == WeightFormat::kFp4Group32 ? rows * weight_.scale_cols()
                                                         : 0;
    copies_ = std::max<std::int64_t>(kBytes / bytes_, 1);
    data_.resize(static_cast<std::size_t>(copies_ * bytes_ / 8 + 1));
    std::mt19937_64 random(1);
    for (std::uint64_t& word : data_) word = random() & 0xb3b3b3b3b3b3b3b3U;
    scale_.assign(static_cast<std::size_t>(copies_ * scale_bytes_), 120);
  }

  const LinearWeight& next() {
    at_ = (at_ + 1) % copies_;
    weight_.data = reinterpret_cast<const std::byte*>(data_.data()) + at_ * bytes_;
    weight_.scale = scale_.data() + at_ * scale_bytes_;
    return weight_;
  }
  std::int64_t bytes() const { return bytes_ + scale_bytes_; }

 private:
  LinearWeight weight_;
  std::int64_t bytes_ = 0;
  std::int64_t scale_bytes_ = 0;
  std::int64_t copies_ = 0;
  std::int64_t at_ = 0;
  std::vector<std::uint64_t> data_;
  std::vector<std::uint8_t> scale_;
};

std::vector<float> normal(std::int64_t count) {
  std::mt19937 random(2);
  std::normal_distribution<float> distribution;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = distribution(random);
  return values;
}

/// range: rows, cols, tokens.
void linear(benchmark::State& state, WeightFormat format) {
  const std::int64_t rows = state.range(0);
  const std::int64_t cols = state.range(1);
  const std::int64_t tokens = state.range(2);
  Bench& shared = bench();
  Weights weights(format, rows, cols);
  std::vector<float> x = normal(tokens * cols);
  std::vector<float> y(static_cast<std::size_t>(tokens * rows));
  for (auto _ : state) {
    shared.ops->linear({x.data(), tokens, cols}, weights.next(), {y.data(), tokens, rows});
    benchmark::ClobberMemory();
  }
  const auto iterations = static_cast<double>(state.iterations());
  const double bytes = static_cast<double>(weights.bytes()) * iterations;
  const double operations = 2.0 * static_cast<double>(rows * cols * tokens) * iterations;
  state.counters["GB/s"] = benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsRate);
  state.counters["share"] =
      benchmark::Counter(bytes / shared.bandwidth, benchmark::Counter::kIsRate);
  state.counters["GFLOP/s"] = benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsRate);
}

void gemv_shapes(benchmark::internal::Benchmark* b) {
  for (const std::int64_t tokens : {1, 4, 8}) {
    b->Args({2304, 5120, tokens});
    b->Args({5120, 2304, tokens});
    b->Args({32768, 1280, tokens});
  }
  b->UseRealTime()->Unit(benchmark::kMillisecond);
}

void gemm_shapes(benchmark::internal::Benchmark* b) {
  for (const std::int64_t tokens : {16, 64, 256}) b->Args({2304, 5120, tokens});
  b->UseRealTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(linear, Gemv_fp8, WeightFormat::kFp8Block32)->Apply(gemv_shapes);
BENCHMARK_CAPTURE(linear, Gemv_mxfp4, WeightFormat::kFp4Group32)->Apply(gemv_shapes);
BENCHMARK_CAPTURE(linear, Gemv_bf16, WeightFormat::kBF16)->Apply(gemv_shapes);
BENCHMARK_CAPTURE(linear, Gemm_fp8, WeightFormat::kFp8Block32)->Apply(gemm_shapes);
BENCHMARK_CAPTURE(linear, Gemm_mxfp4, WeightFormat::kFp4Group32)->Apply(gemm_shapes);
BENCHMARK_CAPTURE(linear, Gemm_bf16, WeightFormat::kBF16)->Apply(gemm_shapes);

std::vector<std::byte> records(RecordFormat format, std::int64_t dim, std::int64_t rows) {
  const std::int64_t bytes = record_bytes(format, dim);
  std::vector<std::byte> pool(static_cast<std::size_t>(rows * bytes));
  const std::vector<float> values = normal(dim);
  for (std::int64_t r = 0; r < rows; ++r) encode_record(format, values, pool.data() + r * bytes);
  return pool;
}

/// 64 heads of 512 over 128 window keys and 512 compressed entries; range: query rows.
void attention(benchmark::State& state) {
  constexpr std::int64_t kHeads = 64;
  constexpr std::int64_t kDim = 512;
  constexpr std::int64_t kWindow = 128;
  constexpr std::int64_t kSelected = 512;
  const std::int64_t tokens = state.range(0);
  const auto ring = records(RecordFormat::kFp8Group32, kDim, kWindow);
  const auto fresh = records(RecordFormat::kFp8Group32, kDim, tokens);
  const auto pool = records(RecordFormat::kFp4Group16E4M3, kDim, 2 * kSelected);
  std::vector<std::int32_t> ring_rows;
  std::vector<std::int32_t> fresh_first;
  std::vector<std::int32_t> selected;
  for (std::int32_t t = 0; t < tokens; ++t) {
    for (std::int32_t i = 0; i < kWindow; ++i) ring_rows.push_back(i < kWindow - 1 ? i : -1);
    for (std::int32_t i = 0; i < kSelected; ++i) selected.push_back(2 * i);
    fresh_first.push_back(t);
  }
  const std::vector<std::int32_t> sequence(static_cast<std::size_t>(tokens), 0);
  const std::vector<std::int32_t> table = {0};
  const auto view = [](const std::vector<std::byte>& bytes, RecordFormat format) {
    const std::int64_t stride = record_bytes(format, kDim);
    return ConstCacheRows{bytes.data(), format, kDim,
                          static_cast<std::int64_t>(bytes.size()) / stride, stride};
  };
  const PagedRows paged{view(pool, RecordFormat::kFp4Group16E4M3), 2 * kSelected, table, 1};
  const AttentionKeys keys{view(ring, RecordFormat::kFp8Group32),
                           ring_rows,
                           kWindow,
                           view(fresh, RecordFormat::kFp8Group32),
                           fresh_first,
                           &paged,
                           selected,
                           kSelected,
                           sequence};
  std::vector<float> q = normal(tokens * kHeads * kDim);
  std::vector<float> out(q.size());
  const std::vector<float> sink(kHeads, 0.0F);
  for (auto _ : state) {
    bench().ops->attention({q.data(), tokens, kHeads * kDim}, kHeads, keys, sink,
                           1.0F / std::sqrt(static_cast<float>(kDim)),
                           {out.data(), tokens, kHeads * kDim});
    benchmark::ClobberMemory();
  }
  const double operations = 4.0 * static_cast<double>(tokens * kHeads * kDim) *
                            static_cast<double>(kWindow + kSelected) *
                            static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsRate);
}
BENCHMARK(attention)->Arg(1)->Arg(16)->UseRealTime()->Unit(benchmark::kMillisecond);

/// 64 index heads of 128 over range(0) FP4 keys, one query, top 512.
void index_select(benchmark::State& state) {
  constexpr std::int64_t kHeads = 64;
  constexpr std::int64_t kDim = 128;
  constexpr std::int64_t kTopK = 512;
  const std::int64_t entries = state.range(0);
  const auto pool = records(RecordFormat::kFp4Group32, kDim, entries);
  const std::vector<std::int32_t> table = {0};
  const PagedRows keys{{pool.data(), RecordFormat::kFp4Group32, kDim, entries,
                        record_bytes(RecordFormat::kFp4Group32, kDim)},
                       entries,
                       table,
                       1};
  std::vector<float> query = normal(kHeads * kDim);
  std::vector<float> weights = normal(kHeads);
  std::vector<std::int32_t> selected(kTopK);
  const std::vector<std::int32_t> sequence = {0};
  const std::vector<std::int32_t> visible = {static_cast<std::int32_t>(entries)};
  for (auto _ : state) {
    bench().ops->index_select({query.data(), 1, kHeads * kDim}, {weights.data(), 1, kHeads}, keys,
                              sequence, visible, {kHeads, kDim, kTopK, CandidateMode::kNone, 0, 0},
                              {}, selected);
    benchmark::ClobberMemory();
  }
  const double operations =
      2.0 * static_cast<double>(entries * kHeads * kDim) * static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsRate);
}
BENCHMARK(index_select)->Arg(8192)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace deepinfer

BENCHMARK_MAIN();
