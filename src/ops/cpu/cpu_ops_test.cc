// Every op against the reference back end, for equality of bits, on every Highway target that this
// machine runs and with one to three threads.

#include "ops/cpu/targets.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "base/math.h"
#include "ops/cpu/matmul.h"
#include "ops/cpu/vector_kernels.h"
#include "ops/ops.h"

namespace deepinfer {
namespace {

using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;
using Bytes = std::vector<std::uint8_t>;

Matrix matrix(Floats& values, std::int64_t rows) {
  return {values.data(), rows, rows == 0 ? 0 : static_cast<std::int64_t>(values.size()) / rows};
}

std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }

/// Equal bits, but for the payload and sign of a NaN, which depend on the order of operands.
void expect_same(const Floats& expected, const Floats& actual, const std::string& what) {
  ASSERT_EQ(expected.size(), actual.size()) << what;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(actual[i])) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(expected[i]), std::bit_cast<std::uint32_t>(actual[i]))
        << what << ", element " << i << ": expected " << expected[i] << ", found " << actual[i];
  }
}

/// A stored weight with its own bytes, misaligned by one on purpose.
struct StoredWeight {
  Bytes data;
  Bytes scale;
  LinearWeight view;
};

class CpuOpsTest : public testing::TestWithParam<std::tuple<std::int64_t, int>> {
 protected:
  CpuOpsTest()
      : pool_(std::get<1>(GetParam())),
        reference_(make_reference_ops()),
        cpu_(make_cpu_ops(pool_)) {
    hwy::SetSupportedTargetsForTest(std::get<0>(GetParam()));
  }
  ~CpuOpsTest() override { hwy::SetSupportedTargetsForTest(0); }

  Floats normal(std::int64_t count, float deviation = 1.0F) {
    std::normal_distribution<float> distribution(0.0F, deviation);
    Floats values(size(count));
    for (float& value : values) value = distribution(random_);
    return values;
  }

  /// Magnitudes over the whole range, zeros of both signs and subnormals among them.
  Floats wild(std::int64_t count) {
    Floats values = normal(count);
    for (float& value : values) {
      switch (random_() % 16) {
        case 0:
          value = 0.0F;
          break;
        case 1:
          value = -0.0F;
          break;
        case 2:
          value *= 0x1p-130F;
          break;
        case 3:
          value *= 0x1p40F;
          break;
        case 4:
          value *= 0x1p-75F;
          break;
        default:
          break;
      }
    }
    return values;
  }

  std::int32_t below(std::int64_t bound) {
    return static_cast<std::int32_t>(random_() % static_cast<std::uint64_t>(bound));
  }

  /// `any` draws every code and scale, NaN, huge and tiny ones among them.
  StoredWeight weight(WeightFormat format, std::int64_t rows, std::int64_t cols, bool any = false) {
    StoredWeight stored;
    stored.view = {format, nullptr, nullptr, rows, cols};
    stored.data.resize(size(rows * stored.view.row_bytes()) + 1);
    for (std::uint8_t& byte : stored.data) byte = static_cast<std::uint8_t>(random_());
    std::uint8_t* const data = stored.data.data() + 1;
    if (format == WeightFormat::kF32 || format == WeightFormat::kBF16) {
      const Floats values = any ? wild(rows * cols) : normal(rows * cols);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint16_t half = float_to_bf16(values[i]);
        if (format == WeightFormat::kF32) {
          std::memcpy(data + 4 * i, &values[i], 4);
        } else {
          std::memcpy(data + 2 * i, &half, 2);
        }
      }
    } else {
      const bool fp8 = format == WeightFormat::kFp8Block32;
      stored.scale.resize(size((fp8 ? (rows + 31) / 32 : rows) * stored.view.scale_cols()));
      for (std::uint8_t& byte : stored.scale) {
        byte = any ? static_cast<std::uint8_t>(random_())
                   : static_cast<std::uint8_t>(110 + random_() % 20);
      }
      if (fp8 && !any) {
        for (std::uint8_t& byte : stored.data) {
          if ((byte & 0x7fU) == 0x7fU) byte = 0x7e;
        }
      }
      stored.view.scale = stored.scale.data();
    }
    stored.view.data = reinterpret_cast<const std::byte*>(data);
    return stored;
  }

  void check_linear(const Floats& x, std::int64_t tokens, const LinearWeight& weight,
                    const std::string& what) {
    Floats expected(size(tokens * weight.rows));
    Floats actual(expected.size(), 7.0F);
    Floats input = x;
    reference_->linear(matrix(input, tokens), weight, matrix(expected, tokens));
    cpu_->linear(matrix(input, tokens), weight, matrix(actual, tokens));
    expect_same(expected, actual, what);
  }

  /// Records of any stored bytes, NaN codes included when `any`.
  std::vector<std::byte> records(RecordFormat format, std::int64_t dim, std::int64_t rows) {
    const std::int64_t bytes = record_bytes(format, dim);
    std::vector<std::byte> pool(size(bytes * rows));
    for (std::int64_t r = 0; r < rows; ++r) {
      const Floats values = normal(dim);
      encode_record(format, values, pool.data() + r * bytes);
    }
    return pool;
  }

  std::mt19937_64 random_{20261017};
  ThreadPool pool_;
  std::unique_ptr<Ops> reference_;
  std::unique_ptr<Ops> cpu_;
};

constexpr WeightFormat kFormats[] = {WeightFormat::kF32, WeightFormat::kBF16,
                                     WeightFormat::kFp8Block32, WeightFormat::kFp4Group32};

std::string describe(WeightFormat format, std::int64_t tokens, std::int64_t rows,
                     std::int64_t cols) {
  return "format " + std::to_string(static_cast<int>(format)) + ", " + std::to_string(tokens) +
         " tokens, " + std::to_string(rows) + "x" + std::to_string(cols);
}

TEST_P(CpuOpsTest, MultipliesEveryFormatByOneToSixtyFiveRows) {
  for (const WeightFormat format : kFormats) {
    const StoredWeight stored = weight(format, 45, 96);
    for (std::int64_t tokens = 1; tokens <= 65; ++tokens) {
      check_linear(normal(tokens * 96), tokens, stored.view, describe(format, tokens, 45, 96));
    }
  }
}

TEST_P(CpuOpsTest, MultipliesWidthsThatFitNoVector) {
  for (const WeightFormat format : kFormats) {
    for (const std::int64_t cols :
         {1, 2, 15, 16, 17, 31, 32, 33, 62, 63, 64, 80, 530, 1056, 2304}) {
      if (format == WeightFormat::kFp4Group32 && cols % 2 != 0) continue;
      for (const std::int64_t tokens : {1, 2, 7, 8, 9, 20}) {
        const std::int64_t rows = 1 + below(39);
        const StoredWeight stored = weight(format, rows, cols);
        check_linear(normal(tokens * cols), tokens, stored.view,
                     describe(format, tokens, rows, cols));
      }
    }
  }
}

TEST_P(CpuOpsTest, MultipliesExtremeCodesScalesAndInputs) {
  for (const WeightFormat format : kFormats) {
    for (int round = 0; round < 6; ++round) {
      const std::int64_t cols = 32 * (1 + below(5));
      const StoredWeight stored = weight(format, 37, cols, true);
      for (const std::int64_t tokens : {1, 3, 8, 13}) {
        Floats x = wild(tokens * cols);
        if (round == 5) x[size(below(tokens * cols))] = std::numeric_limits<float>::infinity();
        check_linear(x, tokens, stored.view, describe(format, tokens, 37, cols));
      }
    }
  }
}

/// One NaN code, one subnormal or huge scale in an otherwise plain weight: the vector path must
/// notice each, wherever it stands.
TEST_P(CpuOpsTest, NoticesASingleRareCode) {
  for (const std::uint8_t code : {0x7f, 0xff}) {
    for (const std::int64_t at : {0, 31, 40, 63}) {
      StoredWeight stored = weight(WeightFormat::kFp8Block32, 8, 64);
      stored.data[size(1 + 64 * 3 + at)] = code;
      check_linear(normal(64), 1, stored.view, "NaN code");
      check_linear(normal(64 * 12), 12, stored.view, "NaN code");
    }
  }
  for (const std::uint8_t scale : {0, 1, 246, 247, 254, 255}) {
    StoredWeight stored = weight(WeightFormat::kFp8Block32, 8, 64);
    stored.scale[1] = scale;
    for (auto& code : stored.data) code &= 0x87U;  // small codes
    check_linear(normal(64), 1, stored.view, "scale " + std::to_string(scale));
    check_linear(normal(64 * 12), 12, stored.view, "scale " + std::to_string(scale));
  }
}

TEST_P(CpuOpsTest, MultipliesGroupsAndStridedRows) {
  for (const WeightFormat format : kFormats) {
    for (const std::int64_t tokens : {1, 5, 11}) {
      const StoredWeight stored = weight(format, 3 * 64, 96);
      Floats x = normal(tokens * 300);
      Floats expected(size(tokens * 200));
      Floats actual = expected;
      const ConstMatrix input{x.data(), tokens, 288, 300};
      reference_->grouped_linear(input, stored.view, 3, {expected.data(), tokens, 192, 200});
      cpu_->grouped_linear(input, stored.view, 3, {actual.data(), tokens, 192, 200});
      expect_same(expected, actual, describe(format, tokens, 192, 96));
    }
  }
}

TEST_P(CpuOpsTest, EmbedsEveryFormat) {
  for (const WeightFormat format : kFormats) {
    const StoredWeight table = weight(format, 40, 62, true);
    const std::vector<TokenId> ids = {0, 39, -1, 40, 17, 33};
    Floats expected(6 * 3 * 62);
    Floats actual(expected.size(), 7.0F);
    reference_->embed(ids, table.view, 3, matrix(expected, 6));
    cpu_->embed(ids, table.view, 3, matrix(actual, 6));
    expect_same(expected, actual, "embed");
  }
}

TEST_P(CpuOpsTest, NormalisesRows) {
  for (const std::int64_t cols : {1, 16, 63, 64, 96, 2304, 5120}) {
    for (const std::int64_t rows : {1, 2, 9}) {
      Floats x = cols % 2 == 0 ? normal(rows * cols) : wild(rows * cols);
      const Floats weight = normal(cols);
      Floats expected(x.size());
      reference_->rms_norm(matrix(x, rows), weight, 1e-6F, matrix(expected, rows));
      cpu_->rms_norm(matrix(x, rows), weight, 1e-6F, matrix(x, rows));
      expect_same(expected, x, "rms_norm of " + std::to_string(cols));
    }
  }
}

TEST_P(CpuOpsTest, MixesCollapsesAndExpandsStreams) {
  for (const int streams : {1, 2, 4, 8}) {
    for (const std::int64_t hidden : {7, 48, 320}) {
      for (const std::int64_t rows : {1, 3, 17}) {
        const std::int64_t mixes = streams * (streams + 2);
        Floats x = normal(rows * streams * hidden, 3.0F);
        Floats fn = normal(mixes * streams * hidden, 0.2F);
        const Floats base = normal(mixes);
        const Floats scale = {0.7F, 1.3F, -0.4F};
        const HyperConnectionWeights weights{matrix(fn, mixes), base, scale};
        HyperConnectionParams params;
        params.streams = streams;
        Floats pre[2];
        Floats post[2];
        Floats comb[2];
        Floats v[2];
        Floats expanded[2] = {x, x};
        const Floats norm = normal(hidden);
        Floats y = normal(rows * hidden);
        for (int i = 0; i < 2; ++i) {
          Ops& ops = i == 0 ? *reference_ : *cpu_;
          pre[i].resize(size(rows * streams));
          post[i].resize(size(rows * streams));
          comb[i].resize(size(rows * streams * streams));
          v[i].resize(size(rows * hidden));
          ops.hc_mixes(matrix(x, rows), weights, params, matrix(pre[i], rows),
                       matrix(post[i], rows), matrix(comb[i], rows));
          ops.hc_collapse_norm(matrix(x, rows), matrix(pre[i], rows), norm, 1e-6F,
                               matrix(v[i], rows));
          ops.hc_expand(matrix(expanded[i], rows), matrix(y, rows), matrix(post[i], rows),
                        matrix(comb[i], rows));
        }
        expect_same(pre[0], pre[1], "pre");
        expect_same(post[0], post[1], "post");
        expect_same(comb[0], comb[1], "comb");
        expect_same(v[0], v[1], "collapse");
        expect_same(expanded[0], expanded[1], "expand");
      }
    }
  }
}

TEST_P(CpuOpsTest, TurnsHeadsForthAndBack) {
  for (const std::int64_t rows : {1, 10}) {
    for (const bool inverse : {false, true}) {
      Floats x[2];
      x[0] = normal(rows * 3 * 46);
      x[1] = x[0];
      Floats cos = normal(rows * 9);
      Floats sin = normal(rows * 9);
      reference_->rope(matrix(x[0], rows), 3, matrix(cos, rows), matrix(sin, rows), inverse);
      cpu_->rope(matrix(x[1], rows), 3, matrix(cos, rows), matrix(sin, rows), inverse);
      expect_same(x[0], x[1], "rope");
    }
  }
}

constexpr RecordFormat kRecordFormats[] = {RecordFormat::kF32, RecordFormat::kFp8Group32,
                                           RecordFormat::kFp4Group16E4M3,
                                           RecordFormat::kFp4Group32};

TEST_P(CpuOpsTest, StoresCopiesAndRoundsRecords) {
  for (const RecordFormat format : kRecordFormats) {
    for (const std::int64_t dim : {32, 96, 512}) {
      for (const bool strange : {false, true}) {
        const std::int64_t rows = 9;
        Floats x = strange ? wild(rows * dim) : normal(rows * dim);
        const Ints to = {3, -1, 0, 11, 7, -1, 1, 2, 9};
        const std::int64_t stride = record_bytes(format, dim) + 5;
        std::vector<std::byte> pool[2];
        std::vector<std::byte> copies[2];
        Floats rounded[2] = {x, x};
        for (int i = 0; i < 2; ++i) {
          Ops& ops = i == 0 ? *reference_ : *cpu_;
          pool[i].resize(size(stride * 12));
          copies[i].resize(size(stride * 12));
          const CacheRows records{pool[i].data(), format, dim, 12, stride};
          ops.store_records(matrix(x, rows), to, records);
          ops.copy_records(records, to, {copies[i].data(), format, dim, 12, stride});
          ops.store_records(matrix(x, rows).rows_from(0, 2), {}, records);
          ops.round_trip(matrix(rounded[i], rows / 3), dim, format);
        }
        EXPECT_EQ(pool[0], pool[1]);
        EXPECT_EQ(copies[0], copies[1]);
        expect_same(rounded[0], rounded[1], "round_trip");
      }
    }
  }
}

TEST_P(CpuOpsTest, DecodesRecordsOfAnyBytes) {
  for (const RecordFormat format : kRecordFormats) {
    if (format == RecordFormat::kF32) continue;
    for (int round = 0; round < 50; ++round) {
      const std::int64_t dim = 32 * (1 + below(16));
      std::vector<std::byte> record(size(record_bytes(format, dim)));
      for (std::byte& byte : record) byte = static_cast<std::byte>(random_());
      Floats expected(size(dim));
      Floats actual(size(dim));
      decode_record(format, record.data(), expected);
      cpu::decode_record_row(format, record.data(), dim, actual.data());
      expect_same(expected, actual, "record");
    }
  }
}

TEST_P(CpuOpsTest, AttendsOverEveryKindOfKey) {
  struct Case {
    std::int64_t rows, heads, dim, ring_width, selected_width;
    RecordFormat window, compressed;
  };
  const Case cases[] = {
      {1, 1, 32, 4, 0, RecordFormat::kF32, RecordFormat::kF32},
      {1, 5, 32, 7, 9, RecordFormat::kFp8Group32, RecordFormat::kFp4Group16E4M3},
      {2, 7, 20, 3, 5, RecordFormat::kF32, RecordFormat::kF32},
      {9, 6, 64, 16, 21, RecordFormat::kFp8Group32, RecordFormat::kFp8Group32},
      {65, 4, 96, 8, 3, RecordFormat::kFp8Group32, RecordFormat::kFp4Group16E4M3},
      {3, 13, 512, 40, 40, RecordFormat::kFp8Group32, RecordFormat::kFp4Group16E4M3},
      {2, 3, 9, 0, 0, RecordFormat::kF32, RecordFormat::kF32},
  };
  for (const Case& c : cases) {
    for (const float deviation : {1.0F, 12.0F}) {
      const std::int64_t pool_rows = 48;
      const auto ring = records(c.window, c.dim, pool_rows);
      const auto fresh = records(c.window, c.dim, c.rows);
      const auto pool = records(c.compressed, c.dim, pool_rows);
      const auto view = [&](const std::vector<std::byte>& bytes, RecordFormat format,
                            std::int64_t rows) {
        return ConstCacheRows{bytes.data(), format, c.dim, rows, record_bytes(format, c.dim)};
      };
      Ints ring_rows(size(c.rows * c.ring_width));
      for (auto& row : ring_rows) row = below(4) == 0 ? -1 : below(pool_rows);
      Ints fresh_first(size(c.rows));
      for (std::int64_t t = 0; t < c.rows; ++t) {
        fresh_first[size(t)] = static_cast<std::int32_t>(std::max<std::int64_t>(0, t - below(20)));
      }
      Ints selected(size(c.rows * c.selected_width), -1);
      for (std::int64_t t = 0; t < c.rows && c.selected_width > 0; ++t) {
        const std::int32_t count = below(c.selected_width + 1);
        for (std::int32_t i = 0; i < count; ++i) selected[size(t * c.selected_width + i)] = i;
      }
      const Ints table = {2, 0, 1, 5, 1, 4, 3, 0, 2, 1, 5, 4};
      Ints sequence(size(c.rows));
      for (auto& row : sequence) row = below(2);
      const PagedRows paged{view(pool, c.compressed, pool_rows), 8, table, 6};
      AttentionKeys keys{view(ring, c.window, pool_rows),
                         ring_rows,
                         c.ring_width,
                         view(fresh, c.window, c.rows),
                         fresh_first,
                         c.selected_width > 0 ? &paged : nullptr,
                         selected,
                         c.selected_width,
                         sequence};
      Floats q = normal(c.rows * c.heads * c.dim, deviation);
      const Floats sink = normal(c.heads, deviation);
      Floats expected(q.size());
      Floats actual(q.size(), 7.0F);
      const float scale = 1.0F / std::sqrt(static_cast<float>(c.dim));
      reference_->attention(matrix(q, c.rows), c.heads, keys, sink, scale,
                            matrix(expected, c.rows));
      cpu_->attention(matrix(q, c.rows), c.heads, keys, sink, scale, matrix(actual, c.rows));
      expect_same(expected, actual, "attention of dim " + std::to_string(c.dim));
    }
  }
}

TEST_P(CpuOpsTest, PoolsPairsAndKeepsState) {
  for (const std::int64_t dim : {5, 64}) {
    const std::int64_t rows = 6;
    Floats gate = normal(rows * dim, 30.0F);
    Floats value = normal(rows * dim);
    for (std::int64_t d = 0; d < dim; d += 3) gate[size(dim + d)] = gate[size(d)];
    Floats state[2];
    state[0] = normal(4 * 2 * dim);
    state[1] = state[0];
    const std::vector<PooledPair> pairs = {{0, -1, 1}, {-1, 2, 3}, {2, -1, 4}, {-1, 0, 5}};
    const Ints store = {-1, 3, -1, -1, 0, -1};
    Floats out[2];
    for (int i = 0; i < 2; ++i) {
      Ops& ops = i == 0 ? *reference_ : *cpu_;
      out[i].resize(size(4 * dim));
      ops.pool_pairs(matrix(gate, rows), matrix(value, rows), pairs, matrix(state[i], 4),
                     matrix(out[i], 4));
      ops.store_pair_state(matrix(gate, rows), matrix(value, rows), store, matrix(state[i], 4));
    }
    expect_same(out[0], out[1], "pool_pairs");
    expect_same(state[0], state[1], "store_pair_state");
  }
}

TEST_P(CpuOpsTest, SelectsTheSameEntries) {
  for (const RecordFormat format : {RecordFormat::kF32, RecordFormat::kFp4Group32}) {
    for (const std::int64_t rows : {1, 2, 7}) {
      const std::int64_t dim = format == RecordFormat::kF32 ? 20 : 64;
      const std::int64_t heads = 1 + below(9);
      const std::int64_t entries = 320;
      const auto pool = records(format, dim, entries);
      Ints table(size(2 * 20));
      std::iota(table.begin(), table.begin() + 20, 0);
      for (int b = 0; b < 20; ++b) table[size(20 + b)] = 19 - b;
      const PagedRows keys{
          {pool.data(), format, dim, entries, record_bytes(format, dim)}, 16, table, 20};
      Floats query = normal(rows * heads * dim);
      Floats weights = normal(rows * heads);
      Ints sequence(size(rows));
      Ints visible(size(rows));
      for (std::int64_t t = 0; t < rows; ++t) {
        sequence[size(t)] = below(2);
        visible[size(t)] = t == 0 ? 311 : below(320);
      }
      IndexSelectParams params{heads, dim, 24, CandidateMode::kPublish, 6, 16};
      Ints blocks[2];
      Ints selected[6];
      for (int i = 0; i < 2; ++i) {
        Ops& ops = i == 0 ? *reference_ : *cpu_;
        blocks[i].resize(size(rows * 6));
        int which = 0;
        for (const CandidateMode mode :
             {CandidateMode::kNone, CandidateMode::kPublish, CandidateMode::kUse}) {
          Ints& out = selected[2 * which++ + i];
          out.resize(size(rows * 24));
          params.candidates = mode;
          ops.index_select(matrix(query, rows), matrix(weights, rows), keys, sequence, visible,
                           params, blocks[i], out);
        }
      }
      EXPECT_EQ(blocks[0], blocks[1]);
      for (int which = 0; which < 3; ++which)
        EXPECT_EQ(selected[2 * which], selected[2 * which + 1]);
    }
  }
}

TEST_P(CpuOpsTest, ReportsANanIndexScore) {
  Floats pool(16 * 4, 1.0F);
  const Ints table = {0};
  const PagedRows keys{
      {reinterpret_cast<const std::byte*>(pool.data()), RecordFormat::kF32, 4, 16, 16},
      16,
      table,
      1};
  for (const std::int64_t rows : {1, 4}) {
    Floats query(size(rows * 4), 1.0F);
    Floats weights(size(rows), std::numeric_limits<float>::quiet_NaN());
    Ints selected(size(rows * 2));
    const Ints sequence(size(rows), 0);
    const Ints visible(size(rows), 9);
    EXPECT_THROW(cpu_->index_select(matrix(query, rows), matrix(weights, rows), keys, sequence,
                                    visible, {1, 4, 2, CandidateMode::kNone, 0, 0}, {}, selected),
                 Error);
  }
}

TEST_P(CpuOpsTest, RoutesAlike) {
  const std::int64_t rows = 19;
  Floats logits = normal(rows * 33, 9.0F);
  const Floats bias = normal(33);
  const Floats bias_vl = normal(33);
  Bytes image(size(rows));
  for (auto& flag : image) flag = below(2) == 0;
  Ints experts[2];
  Floats weights[2];
  for (int i = 0; i < 2; ++i) {
    experts[i].resize(size(rows * 6));
    weights[i].resize(size(rows * 6));
    (i == 0 ? *reference_ : *cpu_)
        .route(matrix(logits, rows), bias, bias_vl, image, {6, 1.5F}, experts[i], weights[i]);
  }
  EXPECT_EQ(experts[0], experts[1]);
  expect_same(weights[0], weights[1], "route");
}

TEST_P(CpuOpsTest, RunsExpertsAndSumsInSlotOrder) {
  struct Case {
    std::int64_t tokens, hidden, width, shared_width, experts, top_k;
    float limit;
  };
  for (const Case& c : {Case{1, 64, 32, 32, 4, 3, 0.0F}, Case{1, 320, 160, 96, 9, 6, 7.0F},
                        Case{23, 96, 64, 64, 3, 2, 1.0F}, Case{65, 64, 96, 160, 12, 4, 0.5F}}) {
    const auto expert = [&](std::int64_t width, WeightFormat format,
                            std::vector<StoredWeight>& own) {
      own.push_back(weight(format, width, c.hidden));
      own.push_back(weight(format, width, c.hidden));
      own.push_back(weight(format, c.hidden, width));
      const std::size_t n = own.size();
      return ExpertWeights{own[n - 3].view, own[n - 2].view, own[n - 1].view};
    };
    std::vector<StoredWeight> own;
    own.reserve(size(3 * (c.experts + 1)));
    const ExpertWeights shared = expert(c.shared_width, WeightFormat::kFp8Block32, own);
    std::vector<ExpertWeights> routed;
    for (std::int64_t e = 0; e < c.experts; ++e) {
      routed.push_back(expert(c.width, WeightFormat::kFp4Group32, own));
    }
    Floats x = normal(c.tokens * c.hidden);
    Ints experts(size(c.tokens * c.top_k));
    Ints order(size(c.experts));
    std::iota(order.begin(), order.end(), 0);
    for (std::int64_t t = 0; t < c.tokens; ++t) {
      std::shuffle(order.begin(), order.end(), random_);
      std::copy_n(order.begin(), c.top_k, experts.begin() + t * c.top_k);
    }
    const Floats weights = normal(c.tokens * c.top_k);
    class Recorder : public ExpertResidency {
     public:
      void require(std::span<const std::int32_t> ids) override {
        seen.emplace_back(ids.begin(), ids.end());
      }
      std::vector<Ints> seen;
    };
    Recorder recorder[2];
    Floats y[2];
    for (int i = 0; i < 2; ++i) {
      y[i].resize(x.size());
      (i == 0 ? *reference_ : *cpu_)
          .moe(matrix(x, c.tokens), experts, weights, c.top_k, {routed, &recorder[i]}, shared,
               c.limit, matrix(y[i], c.tokens));
    }
    EXPECT_EQ(recorder[0].seen, recorder[1].seen);
    expect_same(y[0], y[1], "moe of " + std::to_string(c.tokens) + " tokens");
  }
}

TEST_P(CpuOpsTest, GatesEngramRows) {
  for (const std::int64_t hidden : {5, 64, 160}) {
    for (const std::int64_t rows : {1, 6}) {
      const int streams = 4;
      Floats x[2];
      x[0] = normal(rows * streams * hidden);
      x[1] = x[0];
      Floats kv = normal(rows * (streams + 1) * hidden);
      const Floats q_weight = normal(streams * hidden);
      const Floats k_weight = normal(streams * hidden);
      Bytes active(size(rows), 1);
      if (rows > 2) active[2] = 0;
      Floats gates[2];
      for (int i = 0; i < 2; ++i) {
        gates[i].resize(size(rows * streams));
        (i == 0 ? *reference_ : *cpu_)
            .engram_gate(matrix(x[i], rows), matrix(kv, rows), q_weight, k_weight, active, streams,
                         1e-20F, matrix(gates[i], rows));
      }
      expect_same(x[0], x[1], "engram rows");
      expect_same(gates[0], gates[1], "engram gates");
    }
  }
}

/// exp at the edges of its range, in every lane, through the activation of an expert.
TEST_P(CpuOpsTest, ComputesTheExponentialOfBaseMath) {
  Floats points = {0.0F,
                   -0.0F,
                   87.33F,
                   87.34F,
                   87.4F,
                   -88.37F,
                   -88.38F,
                   -88.4F,
                   1e30F,
                   -1e30F,
                   1e-30F,
                   std::nextafter(87.33F, 90.0F),
                   std::nextafter(-88.37F, -90.0F),
                   std::numeric_limits<float>::infinity(),
                   -std::numeric_limits<float>::infinity(),
                   std::numeric_limits<float>::quiet_NaN()};
  const Floats more = normal(4000, 40.0F);
  points.insert(points.end(), more.begin(), more.end());
  Floats expected(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    expected[i] = (points[i] / (1.0F + exp_f32(-points[i])) * 1.0F) * 1.0F;
  }
  const Floats ones(points.size(), 1.0F);
  Floats gate = points;
  cpu::expert_activation(gate.data(), ones.data(), static_cast<std::int64_t>(gate.size()), 0.0F,
                         1.0F);
  expect_same(expected, gate, "activation");
}

std::string parameter_name(const testing::TestParamInfo<CpuOpsTest::ParamType>& info) {
  return std::string(hwy::TargetName(std::get<0>(info.param))) + "_" +
         std::to_string(std::get<1>(info.param)) + "_threads";
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, CpuOpsTest,
                         testing::Combine(testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                                          testing::Values(1, 2, 3)),
                         parameter_name);

/// A machine without wider vectors would make the suite above vacuous about them: say what ran.
TEST(CpuTargets, IncludeTheScalarFallback) {
  const auto targets = hwy::SupportedAndGeneratedTargets();
  ASSERT_FALSE(targets.empty());
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    EXPECT_GE(targets.size(), 2U) << "only the fallback ran";
  }
#endif
  EXPECT_TRUE(targets.back() == HWY_SCALAR || targets.back() == HWY_EMU128 ||
              targets.back() == HWY_NEON);
}

}  // namespace
}  // namespace deepinfer
