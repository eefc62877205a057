#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.h"

namespace deepinfer {

/// How a weight matrix is stored. Every format decodes exactly to float32 (model.md 4.3, 4.5).
enum class WeightFormat : std::uint8_t {
  kF32,
  kBF16,
  kFp8Block32,  ///< E4M3 with one UE8M0 scale per 32x32 tile
  kFp4Group32,  ///< two E2M1 codes a byte, low nibble first; one UE8M0 scale per row and 32 columns
};

/// The weight of y = W x as it lies in the checkpoint: `rows` outputs, `cols` inputs, row-major,
/// never copied. `data` has no alignment beyond one byte. A view; the checkpoint owns the bytes.
struct LinearWeight {
  WeightFormat format = WeightFormat::kF32;
  const std::byte* data = nullptr;
  const std::uint8_t* scale = nullptr;  ///< null for kF32 and kBF16
  std::int64_t rows = 0;
  std::int64_t cols = 0;

  /// Bytes of one row of `data`.
  std::int64_t row_bytes() const {
    switch (format) {
      case WeightFormat::kF32:
        return cols * 4;
      case WeightFormat::kBF16:
        return cols * 2;
      case WeightFormat::kFp8Block32:
        return cols;
      case WeightFormat::kFp4Group32:
        return cols / 2;
    }
    return 0;
  }
  /// Scales of one row (kFp4Group32) or of one row of tiles (kFp8Block32).
  std::int64_t scale_cols() const { return (cols + 31) / 32; }

  /// Rows [first, first + count). For kFp8Block32 `first` must be a multiple of 32.
  LinearWeight rows_from(std::int64_t first, std::int64_t count) const;
};

/// Makes the view of a stored weight; throws Error(kInternal) when dtypes and shapes don't fit (the
/// checkpoint room has checked them against the catalogue before).
LinearWeight plain_weight(const TensorView& weight);
LinearWeight fp8_weight(const TensorView& weight, const TensorView& scale);
LinearWeight fp4_weight(const TensorView& weight, const TensorView& scale);

/// Decodes row `row` into `out[cols]`, exactly. The definition of what a stored weight means.
void decode_row(const LinearWeight& weight, std::int64_t row, float* out);

/// A BF16 vector as stored (norm weights), decoded once at load: small and read by every token.
std::vector<float> decode_vector(const TensorView& vector);

/// One expert: gate (w1), up (w3), down (w2).
struct ExpertWeights {
  LinearWeight gate;
  LinearWeight up;
  LinearWeight down;
};

/// Makes experts usable before an op reads them: a hook for paging from disk and for slices over
/// ranks. `require` may be called from the op with each expert id once per step, ascending.
class ExpertResidency {
 public:
  virtual ~ExpertResidency() = default;
  virtual void require(std::span<const std::int32_t> experts) = 0;
};

/// The routed experts of one layer. `residency` is null where all experts are always resident.
struct ExpertArray {
  std::span<const ExpertWeights> experts;
  ExpertResidency* residency = nullptr;
};

/// Reads Engram table rows, wherever they live: memory map, host copy, another rank, a procedure.
class EngramRowReader {
 public:
  virtual ~EngramRowReader() = default;
  virtual std::int64_t rows() const = 0;
  virtual std::int64_t dim() const = 0;
  /// Decodes row rows[i] into out[i * dim .. ), exactly. Ids are absolute rows of this table.
  virtual void read(std::span<const std::int64_t> rows, float* out) const = 0;
};

}  // namespace deepinfer
