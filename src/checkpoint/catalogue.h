#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/tensor.h"
#include "checkpoint/config.h"

namespace deepinfer {

/// What a weight belongs to; the rows of `deepinfer inspect`.
enum class Part : std::uint8_t {
  kEmbedding,
  kHead,
  kNorm,  ///< final, attention-site and FFN-site norms
  kHyperConnection,
  kAttention,
  kCompressor,
  kIndexer,
  kRouter,
  kSharedExpert,
  kRoutedExpert,
  kEngramTable,
  kEngram,  ///< projections and norms of the Engram layers
  kDraft,   ///< everything under `mtp.`
  kVision,
  kAligner,
  kImageVector,
};
inline constexpr int kPartCount = static_cast<int>(Part::kImageVector) + 1;
std::string_view to_string(Part part);

/// How a tensor's bytes stand for numbers.
enum class Storage : std::uint8_t {
  kPlain,  ///< BF16 or F32
  kFp8,    ///< E4M3 codes; `X.scale` has one UE8M0 byte per tile or group
  kFp4,    ///< I8, two E2M1 codes a byte
  kScale,  ///< UE8M0 scales of the weight of the same stem
};

/// One tensor a checkpoint must hold (model.md 4.2). `shape` is the stored one: FP4 weights count
/// bytes, two values each, along the last axis.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kBF16;
  Shape shape;
  Part part = Part::kNorm;
  Storage storage = Storage::kPlain;

  std::int64_t bytes() const {
    return shape.elements() * static_cast<std::int64_t>(size_of(dtype));
  }
  /// Trained values: two per byte for FP4, none for scales.
  std::int64_t parameters() const;
};

/// All tensors that `config` implies, in model order: embedding, layers, head, draft layers,
/// vision. Names have no leading `model.`.
std::vector<TensorSpec> weight_catalogue(const ModelConfig& config);

/// Whether a checkpoint may hold `name` although no one reads it: `mtp.{i}.embed.weight` and
/// `mtp.{i}.head.weight`, copies of the backbone's.
bool is_ignored_tensor(const ModelConfig& config, std::string_view name);

}  // namespace deepinfer
