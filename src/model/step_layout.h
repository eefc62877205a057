#pragma once

#include <cstdint>
#include <vector>

#include "base/tensor.h"
#include "cache/plan/cache_layout.h"
#include "checkpoint/config.h"
#include "model/step_batch.h"
#include "ops/ops.h"

namespace deepinfer {

/// Cosines and sines of a list of positions.
struct RopeAngles {
  std::vector<float> cos;
  std::vector<float> sin;
  std::int64_t pairs = 0;

  void fill(std::span<const std::int32_t> positions, std::span<const float> frequencies);
  ConstMatrix cos_view() const { return view(cos); }
  ConstMatrix sin_view() const { return view(sin); }

 private:
  ConstMatrix view(const std::vector<float>& values) const {
    return {values.data(), static_cast<std::int64_t>(values.size()) / pairs, pairs};
  }
};

/// What the layers of one compression ratio need to know about a step.
struct CompressionLayout {
  std::vector<std::int32_t> visible;     ///< [T] entries that each query may see
  std::vector<std::int32_t> pool_rows;   ///< pool row of each entry that this step closes
  std::vector<std::int32_t> positions;   ///< position of each closed entry's first token
  std::vector<PooledPair> pairs;         ///< ratio 2: the two tokens of each closed entry
  std::vector<std::int32_t> state_rows;  ///< ratio 2: [T] state row to write, -1 = none
  RopeAngles angles;                     ///< of `positions`
};

/// Metadata of one step, computed once and used by every layer: positions, where window keys lie,
/// which compressed entries close. Pure arithmetic; buffers are reused from step to step.
class StepLayout {
 public:
  StepLayout(const ModelConfig& config, const CacheLayout& layout);

  /// Throws Error(kInternal) when the batch's rows don't fit together.
  void prepare(const StepBatch& batch);

  std::int64_t tokens() const { return static_cast<std::int64_t>(positions_.size()); }
  std::span<const std::int32_t> positions() const { return positions_; }
  std::span<const std::int32_t> sequence() const { return sequence_; }

  /// [T, window-1] ring rows with keys of earlier steps, increasing position, -1 padded at the end.
  std::span<const std::int32_t> ring_rows() const { return ring_rows_; }
  std::int64_t ring_width() const { return ring_width_; }
  std::span<const std::int32_t> fresh_first() const { return fresh_first_; }
  /// [T] ring row that each token's window record goes to after attention, -1 when a later token
  /// of the same step would overwrite it.
  std::span<const std::int32_t> ring_store() const { return ring_store_; }

  const RopeAngles& plain_angles() const { return plain_angles_; }
  const RopeAngles& yarn_angles() const { return yarn_angles_; }
  const RopeAngles& angles(int ratio) const { return ratio == 0 ? plain_angles_ : yarn_angles_; }
  const CompressionLayout& compression(int ratio) const { return compression_[ratio]; }

 private:
  void check_lists(const StepBatch& batch) const;
  void add_token(const StepBatch& batch, std::size_t sequence, std::int32_t row);
  void add_compression(const StepBatch& batch, std::size_t sequence, std::int32_t row,
                       std::int32_t position, int ratio);

  CacheLayout layout_;
  std::int64_t window_;
  std::int64_t ring_width_;
  std::int64_t ngram_size_;  ///< 0 without Engram
  std::vector<float> plain_frequencies_;
  std::vector<float> yarn_frequencies_;

  std::vector<std::int32_t> positions_;
  std::vector<std::int32_t> sequence_;
  std::vector<std::int32_t> ring_rows_;
  std::vector<std::int32_t> fresh_first_;
  std::vector<std::int32_t> ring_store_;
  RopeAngles plain_angles_;
  RopeAngles yarn_angles_;
  CompressionLayout compression_[3];  ///< by ratio; entry 0 is unused
};

}  // namespace deepinfer
