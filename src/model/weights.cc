#include "model/weights.h"

#include <cstring>
#include <string>

#include "base/dtype.h"
#include "base/error.h"

namespace deepinfer {
namespace {

/// Reads tensors under one prefix, e.g. `layers.3.`.
class Scope {
 public:
  Scope(const Checkpoint& checkpoint, std::string prefix)
      : checkpoint_(checkpoint), prefix_(std::move(prefix)) {}

  TensorView tensor(const std::string& name) const { return checkpoint_.tensor(prefix_ + name); }
  std::vector<float> vector(const std::string& name) const { return decode_vector(tensor(name)); }
  LinearWeight plain(const std::string& name) const {
    return plain_weight(tensor(name + ".weight"));
  }
  LinearWeight fp8(const std::string& name) const {
    return fp8_weight(tensor(name + ".weight"), tensor(name + ".scale"));
  }
  ExpertWeights expert(const std::string& name, bool routed) const {
    const auto part = [&](const char* which) {
      const std::string full = name + "." + which;
      return routed ? fp4_weight(tensor(full + ".weight"), tensor(full + ".scale")) : fp8(full);
    };
    return {part("w1"), part("w3"), part("w2")};
  }

 private:
  const Checkpoint& checkpoint_;
  std::string prefix_;
};

HyperConnectionSite load_site(const Scope& scope, const std::string& name) {
  return {scope.vector(name + "_fn"), scope.vector(name + "_base"), scope.vector(name + "_scale")};
}

LayerWeights load_layer(const Checkpoint& checkpoint, int layer) {
  const ModelConfig& config = checkpoint.config();
  const Scope scope(checkpoint, "layers." + std::to_string(layer) + ".");
  LayerWeights weights;
  weights.attention_hc = load_site(scope, "hc_attn");
  weights.ffn_hc = load_site(scope, "hc_ffn");
  weights.attention_norm = scope.vector("attn_norm.weight");
  weights.ffn_norm = scope.vector("ffn_norm.weight");
  weights.attention = {
      scope.vector("attn.attn_sink"), scope.fp8("attn.wq_a"), scope.vector("attn.q_norm.weight"),
      scope.fp8("attn.wq_b"),         scope.fp8("attn.wkv"),  scope.vector("attn.kv_norm.weight"),
      scope.fp8("attn.wo_a"),         scope.fp8("attn.wo_b")};
  if (config.is_kv_source(layer)) {
    weights.compressor = std::make_unique<CompressorWeights>();
    weights.compressor->value = scope.plain("attn.compressor.wkv");
    if (config.ratio(layer) == 2) weights.compressor->gate = scope.plain("attn.compressor.wgate");
    weights.compressor->norm = scope.vector("attn.compressor.norm.weight");
  }
  if (config.is_index_source(layer)) {
    weights.indexer = std::make_unique<IndexerWeights>(
        IndexerWeights{scope.fp8("attn.indexer.wq_b"), scope.plain("attn.indexer.weights_proj")});
  }
  if (config.is_index_k_source(layer)) {
    weights.index_key = std::make_unique<IndexKeyWeights>(IndexKeyWeights{
        scope.plain("attn.indexer.wk"), scope.vector("attn.indexer.k_norm.weight")});
  }
  weights.moe.gate = scope.plain("ffn.gate");
  weights.moe.bias = scope.vector("ffn.gate.bias");
  weights.moe.bias_vl = scope.vector("ffn.gate.bias_vl");
  weights.moe.shared = scope.expert("ffn.shared_experts", false);
  for (int expert = 0; expert < config.n_routed_experts; ++expert) {
    weights.moe.experts.push_back(scope.expert("ffn.experts." + std::to_string(expert), true));
  }
  weights.moe.residency = std::make_shared<MappedExperts>(layer, weights.moe.experts);
  if (config.has_engram(layer)) {
    weights.engram = std::make_unique<EngramWeights>();
    weights.engram->table = std::make_shared<StoredEngramTable>(scope.tensor("engram.embed.weight"),
                                                                scope.tensor("engram.embed.scale"));
    weights.engram->kv = scope.fp8("engram.wkv");
    weights.engram->q_weight = scope.vector("engram.q_weight");
    weights.engram->k_weight = scope.vector("engram.k_weight");
  }
  return weights;
}

}  // namespace

ModelWeights load_weights(const Checkpoint& checkpoint) {
  ModelWeights weights;
  weights.embedding = plain_weight(checkpoint.tensor("embed.weight"));
  weights.head = plain_weight(checkpoint.tensor("head.weight"));
  weights.norm = decode_vector(checkpoint.tensor("norm.weight"));
  for (int layer = 0; layer < checkpoint.config().num_hidden_layers; ++layer) {
    weights.layers.push_back(load_layer(checkpoint, layer));
  }
  return weights;
}

MappedExperts::MappedExperts(int layer, std::span<const ExpertWeights> experts)
    : layer_(layer), experts_(experts), checked_(experts.size()) {}

void MappedExperts::require(std::span<const std::int32_t> experts) {
  for (const std::int32_t id : experts) {
    const auto index = static_cast<std::size_t>(id);
    if (checked_[index]) continue;
    const ExpertWeights& expert = experts_[index];
    for (const LinearWeight* weight : {&expert.gate, &expert.up, &expert.down}) {
      const auto bytes = static_cast<std::size_t>(weight->rows * weight->scale_cols());
      if (std::memchr(weight->scale, 255, bytes) != nullptr) {
        fail_checkpoint("layers." + std::to_string(layer_) + ".ffn.experts." + std::to_string(id) +
                        ": a scale byte is 255 (NaN); expected 0 .. 254");
      }
    }
    checked_[index] = true;
  }
}

StoredEngramTable::StoredEngramTable(const TensorView& weight, const TensorView& scale)
    : codes_(reinterpret_cast<const std::uint8_t*>(weight.data)),
      scales_(reinterpret_cast<const std::uint8_t*>(scale.data)),
      rows_(weight.shape[0]),
      dim_(weight.shape[1]) {}

void StoredEngramTable::read(std::span<const std::int64_t> rows, float* out) const {
  const std::int64_t groups = dim_ / 32;
  for (const std::int64_t row : rows) {
    if (row < 0 || row >= rows_) {
      fail_internal("Engram row " + std::to_string(row) + " of a table of " +
                    std::to_string(rows_));
    }
    if (std::memchr(scales_ + row * groups, 255, static_cast<std::size_t>(groups)) != nullptr) {
      fail_checkpoint("Engram table: a scale byte of row " + std::to_string(row) +
                      " is 255 (NaN); expected 0 .. 254");
    }
    for (std::int64_t c = 0; c < dim_; ++c) {
      out[c] =
          e4m3_to_float(codes_[row * dim_ + c]) * e8m0_to_float(scales_[row * groups + c / 32]);
    }
    out += dim_;
  }
}

}  // namespace deepinfer
