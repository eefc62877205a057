// Dot products of four rows with up to six tokens at a time, all float32: the inner kernel of the
// prefill GEMM, of attention scores and of index scores.

#if defined(DEEPINFER_OPS_CPU_DOT_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DEEPINFER_OPS_CPU_DOT_TILE_INL_H_
#undef DEEPINFER_OPS_CPU_DOT_TILE_INL_H_
#else
#define DEEPINFER_OPS_CPU_DOT_TILE_INL_H_
#endif

#include <cstdint>

#include "ops/cpu/lanes16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepinfer::cpu::HWY_NAMESPACE {

constexpr int kTileRows = 4;
/// 4 x 6 sums fill 24 of AVX-512's 32 registers, 4 x 3 fill 12 of AVX2's 16 (one half of the
/// sixteen lanes a pass).
constexpr int kTileTokens = kLanes == 8 ? 3 : 6;
/// Floats of partial sums of one tile.
constexpr std::int64_t kTileSums = kTileRows * kTileTokens * 16;

/// sums[r][t][16] = (kStart ? 0 : sums) + the partial sums of rows[r * row_stride + 16 s ..] with
/// tokens[t][offset + 16 s ..], s = 0 .. steps-1.
template <int kTokens, bool kStart>
HWY_INLINE void accumulate_tile(const float* rows, std::int64_t row_stride,
                                const float* const* tokens, std::int64_t offset, std::int64_t steps,
                                float* sums) {
  const FloatTag d;
  const float* token[kTokens];
  for (std::size_t p = 0; p < kParts; ++p) {
    FloatVec acc[kTileRows][kTokens];
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        acc[r][t] = kStart ? hn::Zero(d) : hn::LoadU(d, sums + (r * kTokens + t) * 16 + p * kLanes);
      }
    }
    const float* row = rows + p * kLanes;
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) token[t] = tokens[t] + offset + p * kLanes;
    for (std::int64_t s = 0; s < steps; ++s) {
      FloatVec w[kTileRows];
#pragma GCC unroll 8
      for (int r = 0; r < kTileRows; ++r) w[r] = hn::LoadU(d, row + r * row_stride + s * 16);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        const FloatVec x = hn::LoadU(d, token[t] + s * 16);
#pragma GCC unroll 8
        for (int r = 0; r < kTileRows; ++r) acc[r][t] = fused(w[r], x, acc[r][t]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        hn::StoreU(acc[r][t], d, sums + (r * kTokens + t) * 16 + p * kLanes);
      }
    }
  }
}

/// y[t][row .. row + 3] from finished partial sums; fewer than four rows when `rows` < 4.
template <int kTokens>
HWY_INLINE void finish_tile(const float* sums, std::int64_t row, std::int64_t rows,
                            float* const* y) {
  for (int t = 0; t < kTokens; ++t) {
    if (rows >= kTileRows) {
      reduce16_x4(sums + t * 16, kTokens * 16, y[t] + row);
    } else {
      float out[kTileRows];
      reduce16_x4(sums + t * 16, kTokens * 16, out);
      for (std::int64_t r = 0; r < rows; ++r) y[t][row + r] = out[r];
    }
  }
}

/// Calls body(integral_constant) with the number of tokens of the next tile, `left` at most.
template <class Body>
HWY_INLINE void with_tile_tokens(std::int64_t left, Body&& body) {
  using std::integral_constant;
  if constexpr (kTileTokens == 6) {
    if (left >= 6) return body(integral_constant<int, 6>());
    if (left == 5) return body(integral_constant<int, 5>());
    if (left == 4) return body(integral_constant<int, 4>());
  }
  if (left >= 3) return body(integral_constant<int, 3>());
  if (left == 2) return body(integral_constant<int, 2>());
  body(integral_constant<int, 1>());
}

/// y[t][r] = dot(rows[r], tokens[t]) over `steps` chunks of 16, for all rows and tokens. `rows` has
/// row_count rounded up to 4 readable rows. Short K: one pass, sums stay in the L1 cache.
HWY_INLINE void dot_rows(const float* rows, std::int64_t row_stride, std::int64_t row_count,
                         const float* const* tokens, std::int64_t token_count, std::int64_t steps,
                         float* const* y) {
  HWY_ALIGN float sums[kTileSums];
  for (std::int64_t r = 0; r < row_count; r += kTileRows) {
    for (std::int64_t t = 0; t < token_count;) {
      with_tile_tokens(token_count - t, [&](auto count) HWY_ATTR {
        constexpr int kTokens = decltype(count)::value;
        accumulate_tile<kTokens, true>(rows + r * row_stride, row_stride, tokens + t, 0, steps,
                                       sums);
        finish_tile<kTokens>(sums, r, row_count - r, y + t);
        t += kTokens;
      });
    }
  }
}

}  // namespace deepinfer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
