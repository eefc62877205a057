#pragma once

#include <memory>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "ops/ops.h"
#include "ops/weights.h"

namespace deepinfer {

/// A site's hyper-connection parameters; float32, copied out of the file for alignment.
struct HyperConnectionSite {
  std::vector<float> fn;  ///< [S(S+2), S*H]
  std::vector<float> base;
  std::vector<float> scale;

  HyperConnectionWeights view() const {
    const auto rows = static_cast<std::int64_t>(base.size());
    return {{fn.data(), rows, static_cast<std::int64_t>(fn.size()) / rows}, base, scale};
  }
};

struct CompressorWeights {
  LinearWeight value;  ///< compressor.wkv
  LinearWeight gate;   ///< compressor.wgate, ratio 2 only
  std::vector<float> norm;
};

struct IndexerWeights {
  LinearWeight query;    ///< indexer.wq_b
  LinearWeight weights;  ///< indexer.weights_proj
};

struct IndexKeyWeights {
  LinearWeight key;         ///< indexer.wk
  std::vector<float> norm;  ///< indexer.k_norm
};

struct AttentionWeights {
  std::vector<float> sink;
  LinearWeight q_a;
  std::vector<float> q_norm;
  LinearWeight q_b;
  LinearWeight kv;
  std::vector<float> kv_norm;
  LinearWeight o_a;
  LinearWeight o_b;
};

struct MoeWeights {
  LinearWeight gate;
  std::vector<float> bias;
  std::vector<float> bias_vl;
  ExpertWeights shared;
  std::vector<ExpertWeights> experts;
  std::shared_ptr<ExpertResidency> residency;  ///< may be null
};

struct EngramWeights {
  std::shared_ptr<const EngramRowReader> table;
  LinearWeight kv;
  std::vector<float> q_weight;  ///< [S, H]
  std::vector<float> k_weight;
};

struct LayerWeights {
  HyperConnectionSite attention_hc;
  HyperConnectionSite ffn_hc;
  std::vector<float> attention_norm;
  std::vector<float> ffn_norm;
  AttentionWeights attention;
  std::unique_ptr<CompressorWeights> compressor;  ///< KV sources
  std::unique_ptr<IndexerWeights> indexer;        ///< index sources
  std::unique_ptr<IndexKeyWeights> index_key;     ///< index-K sources
  MoeWeights moe;
  std::unique_ptr<EngramWeights> engram;
};

/// The weights of the text backbone as views into a checkpoint, which must outlive them; small
/// vectors are decoded copies.
struct ModelWeights {
  LinearWeight embedding;
  LinearWeight head;
  std::vector<float> norm;
  std::vector<LayerWeights> layers;
};

ModelWeights load_weights(const Checkpoint& checkpoint);

/// Experts in a memory map: looks for NaN scales (byte 255, model.md 4.3) when an expert is first
/// used, since reading all of them at the start would read a large checkpoint. Throws
/// Error(kCheckpoint) naming layer and expert.
class MappedExperts final : public ExpertResidency {
 public:
  /// `experts` must outlive the object.
  MappedExperts(int layer, std::span<const ExpertWeights> experts);
  void require(std::span<const std::int32_t> experts) override;

 private:
  int layer_;
  std::span<const ExpertWeights> experts_;
  std::vector<bool> checked_;
};

/// An Engram table as stored: E4M3 rows with one UE8M0 scale per 32 columns. A row with a NaN scale
/// throws Error(kCheckpoint) when it is read.
class StoredEngramTable final : public EngramRowReader {
 public:
  StoredEngramTable(const TensorView& weight, const TensorView& scale);
  std::int64_t rows() const override { return rows_; }
  std::int64_t dim() const override { return dim_; }
  void read(std::span<const std::int64_t> rows, float* out) const override;

 private:
  const std::uint8_t* codes_;
  const std::uint8_t* scales_;
  std::int64_t rows_;
  std::int64_t dim_;
};

}  // namespace deepinfer
