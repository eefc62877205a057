#include "checkpoint/catalogue.h"

#include <array>
#include <utility>

namespace deepinfer {
namespace {

constexpr std::int64_t kTile = 32;

std::int64_t tiles(std::int64_t extent) { return (extent + kTile - 1) / kTile; }

/// Collects specs under a common name prefix and part.
class Builder {
 public:
  explicit Builder(std::vector<TensorSpec>& specs) : specs_(specs) {}

  void set_scope(std::string prefix, Part part) {
    prefix_ = std::move(prefix);
    part_ = part;
  }
  void set_part(Part part) {
    // Draft layers reuse the layer functions; whatever they add stays a part of the draft.
    if (part_ != Part::kDraft) part_ = part;
  }

  void plain(const std::string& name, DType dtype, Shape shape) {
    specs_.push_back({prefix_ + name, dtype, shape, part_, Storage::kPlain});
  }
  void bf16(const std::string& name, Shape shape) { plain(name, DType::kBF16, shape); }
  void f32(const std::string& name, Shape shape) { plain(name, DType::kF32, shape); }

  /// E4M3 with one scale per 32 x 32 tile.
  void fp8(const std::string& name, std::int64_t rows, std::int64_t columns) {
    quantized(name, DType::kF8E4M3, Storage::kFp8, {rows, columns}, {tiles(rows), tiles(columns)});
  }
  /// E4M3 with one scale per row and 32 columns.
  void fp8_rows(const std::string& name, std::int64_t rows, std::int64_t columns) {
    quantized(name, DType::kF8E4M3, Storage::kFp8, {rows, columns}, {rows, tiles(columns)});
  }
  /// Two E2M1 codes a byte with one scale per row and 32 columns.
  void fp4(const std::string& name, std::int64_t rows, std::int64_t columns) {
    quantized(name, DType::kI8, Storage::kFp4, {rows, columns / 2}, {rows, columns / kTile});
  }

 private:
  void quantized(const std::string& name, DType dtype, Storage storage, Shape shape, Shape scale) {
    specs_.push_back({prefix_ + name + ".weight", dtype, shape, part_, storage});
    specs_.push_back({prefix_ + name + ".scale", DType::kF8E8M0, scale, part_, Storage::kScale});
  }

  std::vector<TensorSpec>& specs_;
  std::string prefix_;
  Part part_ = Part::kNorm;
};

void add_hyper_connections(Builder& add, const ModelConfig& config) {
  const std::int64_t mixes = config.hc_mix_count();
  const std::int64_t trunk = std::int64_t{config.hc_mult} * config.hidden_size;
  add.set_part(Part::kHyperConnection);
  for (const char* site : {"hc_attn", "hc_ffn"}) {
    add.f32(std::string(site) + "_fn", {mixes, trunk});
    add.f32(std::string(site) + "_base", {mixes});
    add.f32(std::string(site) + "_scale", {3});
  }
}

void add_attention(Builder& add, const ModelConfig& config) {
  const std::int64_t heads = config.num_attention_heads;
  const std::int64_t groups_out = std::int64_t{config.o_groups} * config.o_lora_rank;
  add.set_part(Part::kNorm);
  add.bf16("attn_norm.weight", {config.hidden_size});
  add.bf16("ffn_norm.weight", {config.hidden_size});
  add.set_part(Part::kAttention);
  add.f32("attn.attn_sink", {heads});
  add.fp8("attn.wq_a", config.q_lora_rank, config.hidden_size);
  add.bf16("attn.q_norm.weight", {config.q_lora_rank});
  add.fp8("attn.wq_b", heads * config.head_dim, config.q_lora_rank);
  add.fp8("attn.wkv", config.head_dim, config.hidden_size);
  add.bf16("attn.kv_norm.weight", {config.head_dim});
  add.fp8("attn.wo_a", groups_out, heads / config.o_groups * config.head_dim);
  add.fp8("attn.wo_b", config.hidden_size, groups_out);
}

void add_sparse_attention(Builder& add, const ModelConfig& config, int layer) {
  if (config.is_kv_source(layer)) {
    add.set_part(Part::kCompressor);
    add.bf16("attn.compressor.wkv.weight", {config.head_dim, config.hidden_size});
    if (config.ratio(layer) == 2) {
      add.bf16("attn.compressor.wgate.weight", {config.head_dim, config.hidden_size});
    }
    add.bf16("attn.compressor.norm.weight", {config.head_dim});
  }
  add.set_part(Part::kIndexer);
  if (config.is_index_source(layer)) {
    add.fp8("attn.indexer.wq_b", std::int64_t{config.index_n_heads} * config.index_head_dim,
            config.q_lora_rank);
    add.bf16("attn.indexer.weights_proj.weight", {config.index_n_heads, config.hidden_size});
  }
  if (config.is_index_k_source(layer)) {
    add.bf16("attn.indexer.wk.weight", {config.index_head_dim, config.head_dim});
    add.bf16("attn.indexer.k_norm.weight", {config.index_head_dim});
  }
}

void add_experts(Builder& add, const ModelConfig& config, int experts) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.moe_intermediate_size;
  add.set_part(Part::kRouter);
  add.bf16("ffn.gate.weight", {experts, hidden});
  add.f32("ffn.gate.bias", {experts});
  add.f32("ffn.gate.bias_vl", {experts});
  add.set_part(Part::kSharedExpert);
  add.fp8("ffn.shared_experts.w1", inner, hidden);
  add.fp8("ffn.shared_experts.w3", inner, hidden);
  add.fp8("ffn.shared_experts.w2", hidden, inner);
  add.set_part(Part::kRoutedExpert);
  for (int expert = 0; expert < experts; ++expert) {
    const std::string name = "ffn.experts." + std::to_string(expert);
    add.fp4(name + ".w1", inner, hidden);
    add.fp4(name + ".w3", inner, hidden);
    add.fp4(name + ".w2", hidden, inner);
  }
}

void add_engram(Builder& add, const ModelConfig& config, int index) {
  const std::int64_t values = std::int64_t{config.engram_columns()} * config.engram_head_dim;
  const std::int64_t outputs = std::int64_t{config.hc_mult + 1} * config.hidden_size;
  add.set_part(Part::kEngramTable);
  add.fp8_rows("engram.embed", config.engram_num_embeddings[static_cast<std::size_t>(index)],
               config.engram_head_dim);
  add.set_part(Part::kEngram);
  add.fp8("engram.wkv", outputs, values);
  add.bf16("engram.q_weight", {config.hc_mult, config.hidden_size});
  add.bf16("engram.k_weight", {config.hc_mult, config.hidden_size});
}

void add_draft_layer(Builder& add, const ModelConfig& config, int index) {
  add.set_scope("mtp." + std::to_string(index) + ".", Part::kDraft);
  add_hyper_connections(add, config);
  add_attention(add, config);
  add_experts(add, config, config.dspark_n_routed_experts);
  const std::int64_t hidden = config.hidden_size;
  if (index == 0) {
    const auto targets = static_cast<std::int64_t>(config.dspark_target_layer_ids.size());
    add.fp8("main_proj", hidden, targets * hidden);
    add.bf16("main_norm.weight", {hidden});
  }
  if (index == config.num_nextn_predict_layers - 1) {
    const std::int64_t rank = config.dspark_markov_rank;
    add.bf16("norm.weight", {hidden});
    add.bf16("markov_head.embed.weight", {config.vocab_size, rank});
    add.bf16("markov_head.head.weight", {config.vocab_size, rank});
    add.bf16("confidence_head.proj.weight", {1, hidden + rank});
  }
}

void add_vision(Builder& add, const ModelConfig& config) {
  const VisionConfig& vision = *config.vision;
  const std::int64_t width = vision.hidden_size;
  const std::int64_t hidden = config.hidden_size;
  add.set_scope("vision.", Part::kVision);
  add.bf16("patch_embed.proj.weight", {width, vision.patch_elements()});
  add.bf16("patch_embed.proj.bias", {width});
  for (int block = 0; block < vision.num_hidden_layers; ++block) {
    add.set_scope("vision.blocks." + std::to_string(block) + ".", Part::kVision);
    add.bf16("norm1.weight", {width});
    add.bf16("norm2.weight", {width});
    add.bf16("attn.wqkv.weight", {3 * width, width});
    add.bf16("attn.wqkv.bias", {3 * width});
    add.bf16("attn.wo.weight", {width, width});
    add.bf16("attn.wo.bias", {width});
    add.bf16("mlp.w1.weight", {2 * std::int64_t{vision.intermediate_size}, width});
    add.bf16("mlp.w2.weight", {width, vision.intermediate_size});
  }
  add.set_scope("vision.", Part::kVision);
  add.bf16("norm.weight", {width});
  add.set_scope("aligner.", Part::kAligner);
  const std::int64_t window = width * vision.downsample_ratio * vision.downsample_ratio;
  add.bf16("w1.weight", {hidden, window});
  add.bf16("w1.bias", {hidden});
  add.bf16("w2.weight", {hidden, hidden});
  add.bf16("w2.bias", {hidden});
  add.set_scope("", Part::kImageVector);
  for (const char* name : {"image_start", "image_end", "image_newline"}) add.bf16(name, {hidden});
}

}  // namespace

std::string_view to_string(Part part) {
  constexpr std::array<std::string_view, kPartCount> kNames{
      "embedding", "head",   "norms",          "hyper-connections", "attention",     "compressor",
      "indexer",   "router", "shared experts", "routed experts",    "engram tables", "engram",
      "draft",     "vision", "aligner",        "image vectors"};
  return kNames[static_cast<std::size_t>(part)];
}

std::int64_t TensorSpec::parameters() const {
  switch (storage) {
    case Storage::kFp4:
      return 2 * shape.elements();
    case Storage::kScale:
      return 0;
    default:
      return shape.elements();
  }
}

std::vector<TensorSpec> weight_catalogue(const ModelConfig& config) {
  std::vector<TensorSpec> specs;
  Builder add(specs);
  add.set_scope("", Part::kEmbedding);
  add.bf16("embed.weight", {config.vocab_size, config.hidden_size});
  for (int layer = 0; layer < config.num_hidden_layers; ++layer) {
    add.set_scope("layers." + std::to_string(layer) + ".", Part::kNorm);
    if (const int index = config.engram_index(layer); index >= 0) add_engram(add, config, index);
    add_hyper_connections(add, config);
    add_attention(add, config);
    add_sparse_attention(add, config, layer);
    add_experts(add, config, config.n_routed_experts);
  }
  add.set_scope("", Part::kNorm);
  add.bf16("norm.weight", {config.hidden_size});
  add.set_scope("", Part::kHead);
  add.bf16("head.weight", {config.vocab_size, config.hidden_size});
  for (int index = 0; index < config.num_nextn_predict_layers; ++index) {
    add_draft_layer(add, config, index);
  }
  if (config.vision) add_vision(add, config);
  return specs;
}

bool is_ignored_tensor(const ModelConfig& config, std::string_view name) {
  for (int index = 0; index < config.num_nextn_predict_layers; ++index) {
    const std::string prefix = "mtp." + std::to_string(index) + ".";
    if (name == prefix + "embed.weight" || name == prefix + "head.weight") return true;
  }
  return false;
}

}  // namespace deepinfer
