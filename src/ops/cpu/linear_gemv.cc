// Few tokens: each weight is read from memory once, decoded in registers and used for all tokens.

#include "ops/cpu/targets.h"
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/linear_gemv.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include "ops/cpu/decode-inl.h"
#include "ops/cpu/lanes16-inl.h"
#include "ops/cpu/matmul.h"

HWY_BEFORE_NAMESPACE();
namespace deepinfer::cpu::HWY_NAMESPACE {

/// Sums that fit the registers beside the decoder's temporaries: 32 registers hold 16 sums of one
/// register, 16 registers hold 4 sums of two.
constexpr int kSums = kParts == 1 ? 16 : 4;
/// More tokens take another pass over a block of rows that is still in the L2 cache. One pass of 8
/// tokens over two rows was no faster for FP8 and slower for FP4 (0.13 against 0.17 of the read
/// bandwidth on one Zen 4 thread).
constexpr int kMaxTokens = 4;

constexpr int rows_for(int tokens) { return tokens * 4 <= kSums ? 4 : tokens * 2 <= kSums ? 2 : 1; }

/// The tokens as the kernel reads them: whole groups of 32, padded with +0, in the decoder's order.
/// `x` itself where it already is so.
template <bool kPermuted>
const float* const* prepare_tokens(const MatmulJob& job, MatmulScratch& scratch) {
  const std::int64_t cols = job.weight.cols;
  if (!kPermuted && cols % 32 == 0) return job.x;
  const std::int64_t padded = (cols + 31) / 32 * 32;
  float* const copy = scratch.x.reserve(job.tokens * padded);
  const float** const rows = scratch.x_rows.reserve(job.tokens);
  for (std::int64_t t = 0; t < job.tokens; ++t) {
    float* const to = copy + t * padded;
    rows[t] = to;
    for (std::int64_t k = 0; k < padded; k += 16) {
      const std::int64_t left = cols - k;
      const Lanes16 chunk =
          left >= 16
              ? load16(job.x[t] + k)
              : load16_partial(job.x[t] + k, left > 0 ? static_cast<std::size_t>(left) : 0, 0.0F);
      store16(kPermuted ? permute_chunk(chunk) : chunk, to + k);
    }
  }
  return rows;
}

/// The plain way, for rows with codes that the vector path leaves out.
HWY_NOINLINE void plain_rows(const MatmulJob& job, std::int64_t row, std::int64_t rows,
                             std::int64_t token, std::int64_t tokens, MatmulScratch& scratch) {
  float* const decoded = scratch.weight.reserve(job.weight.cols);
  for (std::int64_t r = row; r < row + rows; ++r) {
    decode_row(job.weight, r, decoded);
    for (std::int64_t t = token; t < token + tokens; ++t) {
      job.y[t][r] = dot(decoded, job.x[t], static_cast<std::size_t>(job.weight.cols));
    }
  }
}

/// Asks for the strip after this one while this one is computed: rows are short (5 KiB) and the
/// hardware's streams start anew with each. Measured on one Zen 4 thread as a share of its read
/// bandwidth, without and with: FP8 0.50, 0.60; FP4 0.38, 0.45; BF16 0.79, 0.97. FP4 strips
/// (10 KiB) may go to the L1 cache; larger ones would evict the tokens, BF16 falls back to 0.66.
template <typename Row, int kRows>
HWY_INLINE void prefetch_group(const std::byte* from) {
  constexpr int kLocality = Row::kGroupBytes <= 16 ? 3 : 2;
#pragma GCC unroll 8
  for (std::int64_t i = 0; i < kRows * Row::kGroupBytes / 64; ++i) {
    __builtin_prefetch(from + i * 64, 0, kLocality);
  }
}

template <typename Row, int kRows, int kTokens>
HWY_INLINE void strip(const MatmulJob& job, const float* const* x, std::int64_t row,
                      std::int64_t token, MatmulScratch& scratch) {
  const std::int64_t cols = job.weight.cols;
  const std::int64_t groups = cols / 32;
  const float* tokens[kTokens];
  for (int t = 0; t < kTokens; ++t) tokens[t] = x[token + t];
  const Row rows[4] = {Row(job.weight, row), Row(job.weight, row + 1 % kRows),
                       Row(job.weight, row + 2 % kRows), Row(job.weight, row + 3 % kRows)};
  const std::byte* next = job.weight.data + (row + kRows) * job.weight.row_bytes();
  typename Row::Watch watch;
  Lanes16 acc[kRows][kTokens];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) acc[r][t] = zero16();
  }
  for (std::int64_t g = 0; g < groups; ++g) {
    prefetch_group<Row, kRows>(next);
    next += kRows * Row::kGroupBytes;
    const auto tile_scale = rows[0].scale(g);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      Lanes16 low;
      Lanes16 high;
      rows[r].group(g, Row::kTileScale || r == 0 ? tile_scale : rows[r].scale(g), low, high, watch);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        acc[r][t] = fused16(low, load16(tokens[t] + g * 32), acc[r][t]);
        acc[r][t] = fused16(high, load16(tokens[t] + g * 32 + 16), acc[r][t]);
      }
    }
  }
  if (HWY_UNLIKELY(watch.hit())) {
    plain_rows(job, row, kRows, token, kTokens, scratch);
    return;
  }
  if (groups * 32 < cols) {
    for (int r = 0; r < kRows; ++r) {
      float tail[32];
      for (std::int64_t i = 0; i < 32; ++i) {
        const std::int64_t col = groups * 32 + i;
        tail[i] = col < cols ? decode_one(job.weight, row + r, col) : kWeightPad;
      }
      Lanes16 low = load16(tail);
      Lanes16 high = load16(tail + 16);
      if constexpr (Row::kPermuted) {
        low = permute_chunk(low);
        high = permute_chunk(high);
      }
      for (int t = 0; t < kTokens; ++t) {
        acc[r][t] = fused16(low, load16(tokens[t] + groups * 32), acc[r][t]);
        acc[r][t] = fused16(high, load16(tokens[t] + groups * 32 + 16), acc[r][t]);
      }
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    for (int r = 0; r < kRows; ++r) {
      job.y[token + t][row + r] = reduce16(Row::kPermuted ? unpermute(acc[r][t]) : acc[r][t]);
    }
  }
}

template <typename Row, int kTokens>
void rows_of_tokens(const MatmulJob& job, const float* const* x, std::int64_t first,
                    std::int64_t last, std::int64_t token, MatmulScratch& scratch) {
  constexpr int kRows = rows_for(kTokens);
  std::int64_t row = first;
  while (row < last) {
    const bool one_tile = !Row::kTileScale || row % 32 + kRows <= 32;
    if (row + kRows <= last && one_tile) {
      strip<Row, kRows, kTokens>(job, x, row, token, scratch);
      row += kRows;
    } else {
      strip<Row, 1, kTokens>(job, x, row, token, scratch);
      ++row;
    }
  }
}

template <typename Row>
void gemv_format(const MatmulJob& job, std::int64_t first, std::int64_t last,
                 MatmulScratch& scratch) {
  const float* const* const x = prepare_tokens<Row::kPermuted>(job, scratch);
  // Blocks of rows stay in the L2 cache when tokens come in several passes.
  constexpr std::int64_t kBlock = 32;
  for (std::int64_t row = first; row < last; row += kBlock) {
    const std::int64_t end = std::min(row + kBlock, last);
    if (HWY_UNLIKELY(Row::plain_only(job.weight, row) || Row::plain_only(job.weight, end - 1))) {
      plain_rows(job, row, end - row, 0, job.tokens, scratch);
      continue;
    }
    for (std::int64_t token = 0; token < job.tokens;) {
      const std::int64_t left = job.tokens - token;
      const auto run = [&](auto count) HWY_ATTR {
        rows_of_tokens<Row, decltype(count)::value>(job, x, row, end, token, scratch);
        token += decltype(count)::value;
      };
      using std::integral_constant;
      if (left >= kMaxTokens) {
        run(integral_constant<int, kMaxTokens>());
      } else if (left == 3) {
        run(integral_constant<int, 3>());
      } else if (left == 2) {
        run(integral_constant<int, 2>());
      } else {
        run(integral_constant<int, 1>());
      }
    }
  }
}

void gemv(const MatmulJob& job, std::int64_t first, std::int64_t last, MatmulScratch& scratch) {
  switch (job.weight.format) {
    case WeightFormat::kF32:
      return gemv_format<F32Row>(job, first, last, scratch);
    case WeightFormat::kBF16:
      return gemv_format<Bf16Row>(job, first, last, scratch);
    case WeightFormat::kFp8Block32:
      return gemv_format<Fp8Row>(job, first, last, scratch);
    case WeightFormat::kFp4Group32:
      return gemv_format<Fp4Row>(job, first, last, scratch);
  }
}

}  // namespace deepinfer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deepinfer::cpu {

HWY_EXPORT(gemv);

void gemv_rows(const MatmulJob& job, std::int64_t first, std::int64_t last,
               MatmulScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(gemv)(job, first, last, scratch);
}

void matmul_rows(const MatmulJob& job, std::int64_t first, std::int64_t last,
                 MatmulScratch& scratch) {
  if (job.tokens <= kGemvTokens) {
    gemv_rows(job, first, last, scratch);
  } else {
    gemm_rows(job, first, last, scratch);
  }
}

}  // namespace deepinfer::cpu
#endif
