// Many tokens: a tile of the weight is decoded once into float32 and used for many tokens. K is cut
// into blocks that fit the L1 cache; the sixteen partial sums of each output wait in memory between
// blocks, so that the order over K stays that of the contract.

#include "ops/cpu/targets.h"
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/linear_gemm.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include "ops/cpu/decode-inl.h"
#include "ops/cpu/dot_tile-inl.h"
#include "ops/cpu/matmul.h"

HWY_BEFORE_NAMESPACE();
namespace deepinfer::cpu::HWY_NAMESPACE {

/// 32 rows share an FP8 scale row; 512 columns of four rows and six tokens are 20 KiB of L1.
constexpr std::int64_t kBlockRows = 32;
constexpr std::int64_t kBlockCols = 512;
/// Rows of the decoded tile are a cache line longer than the block, so that they do not all fall
/// into the same sets of the cache.
constexpr std::int64_t kTileStride = kBlockCols + 16;
/// Tokens that share one decoding: their partial sums (32 x 96 x 64 B) stay in the L2 cache.
constexpr std::int64_t kBlockTokens = 96;

template <typename Row>
void decode_tile(const LinearWeight& weight, std::int64_t first, std::int64_t rows,
                 std::int64_t col, std::int64_t cols, std::int64_t padded, float* tile) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* const to = tile + r * kTileStride;
    decode_columns<Row>(weight, first + r, col, col + cols, to);
    for (std::int64_t k = cols; k < padded; ++k) to[k] = kWeightPad;
  }
}

template <typename Row>
void gemm_format(const MatmulJob& job, std::int64_t first, std::int64_t last,
                 MatmulScratch& scratch) {
  const std::int64_t cols = job.weight.cols;
  float* const tile = scratch.weight.reserve(kBlockRows * kTileStride);
  float* const sums = scratch.acc.reserve(kBlockRows / kTileRows * kBlockTokens * kTileRows * 16);
  const float* const* x = job.x;
  if (cols % 16 != 0) {
    const std::int64_t padded = (cols + 15) / 16 * 16;
    float* const copy = scratch.x.reserve(job.tokens * padded);
    const float** const rows = scratch.x_rows.reserve(job.tokens);
    for (std::int64_t t = 0; t < job.tokens; ++t) {
      rows[t] = copy + t * padded;
      std::copy_n(job.x[t], cols, copy + t * padded);
      std::fill_n(copy + t * padded + cols, padded - cols, 0.0F);
    }
    x = rows;
  }
  for (std::int64_t token = 0; token < job.tokens; token += kBlockTokens) {
    const std::int64_t tokens = std::min(kBlockTokens, job.tokens - token);
    for (std::int64_t row = first; row < last; row += kBlockRows) {
      const std::int64_t rows = std::min(kBlockRows, last - row);
      for (std::int64_t col = 0; col < cols; col += kBlockCols) {
        const std::int64_t width = std::min(kBlockCols, cols - col);
        const std::int64_t steps = (width + 15) / 16;
        decode_tile<Row>(job.weight, row, rows, col, width, steps * 16, tile);
        const bool start = col == 0;
        const bool finish = col + width == cols;
        // Tokens outside: a group of six stays in L1 while the tile streams past it from L2.
        for (std::int64_t t = 0; t < tokens;) {
          with_tile_tokens(tokens - t, [&](auto count) HWY_ATTR {
            constexpr int kTokens = decltype(count)::value;
            for (std::int64_t r = 0; r < rows; r += kTileRows) {
              float* const tile_sums = sums + (r / kTileRows * kBlockTokens + t) * kTileRows * 16;
              const float* const tile_rows = tile + r * kTileStride;
              if (start) {
                accumulate_tile<kTokens, true>(tile_rows, kTileStride, x + token + t, col, steps,
                                               tile_sums);
              } else {
                accumulate_tile<kTokens, false>(tile_rows, kTileStride, x + token + t, col, steps,
                                                tile_sums);
              }
              if (finish) {
                finish_tile<kTokens>(tile_sums, row + r, rows - r, job.y + token + t);
              }
            }
            t += kTokens;
          });
        }
      }
    }
  }
}

void gemm(const MatmulJob& job, std::int64_t first, std::int64_t last, MatmulScratch& scratch) {
  switch (job.weight.format) {
    case WeightFormat::kF32:
      return gemm_format<F32Row>(job, first, last, scratch);
    case WeightFormat::kBF16:
      return gemm_format<Bf16Row>(job, first, last, scratch);
    case WeightFormat::kFp8Block32:
      return gemm_format<Fp8Row>(job, first, last, scratch);
    case WeightFormat::kFp4Group32:
      return gemm_format<Fp4Row>(job, first, last, scratch);
  }
}

void decode_row_lanes(const LinearWeight& weight, std::int64_t row, float* out) {
  switch (weight.format) {
    case WeightFormat::kF32:
      return decode_columns<F32Row>(weight, row, 0, weight.cols, out);
    case WeightFormat::kBF16:
      return decode_columns<Bf16Row>(weight, row, 0, weight.cols, out);
    case WeightFormat::kFp8Block32:
      return decode_columns<Fp8Row>(weight, row, 0, weight.cols, out);
    case WeightFormat::kFp4Group32:
      return decode_columns<Fp4Row>(weight, row, 0, weight.cols, out);
  }
}

}  // namespace deepinfer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deepinfer::cpu {

HWY_EXPORT(gemm);
HWY_EXPORT(decode_row_lanes);

void gemm_rows(const MatmulJob& job, std::int64_t first, std::int64_t last,
               MatmulScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(gemm)(job, first, last, scratch);
}

void decode_weight_row(const LinearWeight& weight, std::int64_t row, float* out) {
  HWY_DYNAMIC_DISPATCH(decode_row_lanes)(weight, row, out);
}

}  // namespace deepinfer::cpu
#endif
