#pragma once

#include <cstdint>

#include "ops/cpu/scratch.h"
#include "ops/weights.h"

namespace deepinfer::cpu {

/// y[t][r] = dot(weight row r, x[t]) for `tokens` rows given by pointers, so that an expert's
/// tokens need no gathering.
struct MatmulJob {
  LinearWeight weight;
  const float* const* x = nullptr;
  float* const* y = nullptr;
  std::int64_t tokens = 0;
};

/// What one thread needs to run jobs.
struct MatmulScratch {
  GrowBuffer<float> x;  ///< padded or permuted copies of the tokens
  GrowBuffer<const float*> x_rows;
  GrowBuffer<float> weight;  ///< one decoded tile
  GrowBuffer<float> acc;     ///< partial sums of a tile
};

/// Up to this many tokens the weight is decoded in registers and read once; above, a decoded tile
/// is reused for many tokens.
constexpr std::int64_t kGemvTokens = 8;

/// Rows [first, last) of a job.
void matmul_rows(const MatmulJob& job, std::int64_t first, std::int64_t last,
                 MatmulScratch& scratch);

/// The two forms behind matmul_rows; any number of tokens.
void gemv_rows(const MatmulJob& job, std::int64_t first, std::int64_t last, MatmulScratch& scratch);
void gemm_rows(const MatmulJob& job, std::int64_t first, std::int64_t last, MatmulScratch& scratch);

/// Row `row` of a weight as float32, as decode_row but in vectors.
void decode_weight_row(const LinearWeight& weight, std::int64_t row, float* out);

}  // namespace deepinfer::cpu
