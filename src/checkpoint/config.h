#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/tokenizer_compatibility.h"

namespace deepinfer {

/// YaRN, applied only together with `compress_rope_theta` (model.md 6.1).
struct RopeScaling {
  double factor = 1.0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  int original_max_position_embeddings = 0;
};

/// The vision tower (model.md 3.5, 13). Its width is not the text model's.
struct VisionConfig {
  int hidden_size = 0;
  int intermediate_size = 0;
  int num_hidden_layers = 0;
  int num_attention_heads = 0;
  int patch_size = 0;
  int downsample_ratio = 0;
  double rope_theta = 10000.0;
  int max_image_tokens = 1024;
  std::int64_t min_pixels = 295936;
  std::optional<double> max_wh_ratio;

  /// Values of one flattened patch: 3 channels x patch x patch.
  int patch_elements() const { return 3 * patch_size * patch_size; }
};

/// `config.json`, validated (model.md 3). Field names are the file's keys; keys with one supported
/// value (`hidden_act`, `scoring_func`, ...) are checked and not kept. An object made by
/// `parse_config` satisfies every rule of that section, so that no user needs to check again:
/// sizes are positive, products of two sizes fit int64, lists are increasing and inside the model.
struct ModelConfig {
  // Top level.
  TokenId bos_token_id = 0;
  TokenId eos_token_id = 0;
  TokenId pad_token_id = 0;
  TokenId image_token_id = 0;
  TokenizerCompatibility tokenizer_compatibility = TokenizerCompatibility::kRelease;

  // Sizes.
  int vocab_size = 0;
  int hidden_size = 0;
  int num_hidden_layers = 0;
  int num_attention_heads = 0;
  int head_dim = 0;          ///< rotary dimensions included
  int qk_rope_head_dim = 0;  ///< the last dimensions of a head, a KV latent, an index vector
  int q_lora_rank = 0;
  int o_groups = 0;
  int o_lora_rank = 0;
  double swiglu_limit = 0.0;
  double rms_norm_eps = 0.0;
  int max_position_embeddings = 0;

  // Rotary embedding.
  double rope_theta = 0.0;           ///< layers of ratio 0 and draft layers
  double compress_rope_theta = 0.0;  ///< layers of ratio > 0, with rope_scaling
  RopeScaling rope_scaling;

  // Attention kinds.
  int sliding_window = 0;            ///< counts the query's own position
  std::vector<int> compress_ratios;  ///< per layer, then per draft layer: 0, 1 or 2
  std::vector<int> kv_source_layer_ids;
  std::vector<int> index_source_layer_ids;
  std::vector<int> index_k_source_layer_ids;
  int index_n_heads = 0;
  int index_head_dim = 0;
  int index_topk = 0;
  std::optional<int> candidate_source_layer_id;  ///< empty: no two-level search
  int candidate_topk_blocks = 0;
  int candidate_block_size = 0;  ///< in compressed entries
  bool use_fp4_sparse_kv = true;

  // Hyper-connections.
  int hc_mult = 0;  ///< streams
  int hc_sinkhorn_iters = 0;
  double hc_eps = 0.0;

  // Mixture of experts.
  int n_routed_experts = 0;
  int n_shared_experts = 0;
  int num_experts_per_tok = 0;
  int moe_intermediate_size = 0;
  double routed_scaling_factor = 0.0;

  // Engram. All zero and empty when the model has none.
  std::vector<int> engram_layer_ids;
  std::int64_t engram_vocab_size = 0;               ///< start of the prime search
  std::vector<std::int64_t> engram_num_embeddings;  ///< rows, one per engram layer
  int engram_max_ngram_size = 0;
  int engram_n_heads = 0;
  int engram_head_dim = 0;
  TokenId engram_pad_token_id = 0;  ///< a raw id, before the compressed vocabulary
  int engram_compressed_vocab_size = 0;

  // Draft layers (DSpark). All zero and empty when num_nextn_predict_layers is 0.
  int num_nextn_predict_layers = 0;
  int dspark_block_size = 0;
  TokenId dspark_noise_token_id = 0;
  std::vector<int> dspark_target_layer_ids;
  int dspark_markov_rank = 0;
  int dspark_n_routed_experts = 0;
  int dspark_num_experts_per_tok = 0;

  /// Empty when the file has no `vision_config`: a text-only checkpoint without vision, aligner and
  /// image vectors.
  std::optional<VisionConfig> vision;

  /// Keys of the file that deepinfer doesn't know, as `text_config.key`. One warning each was
  /// logged.
  std::vector<std::string> unknown_keys;

  /// The compression ratio of a layer; draft layers follow the backbone's. `layer` in
  /// [0, num_hidden_layers + num_nextn_predict_layers).
  int ratio(int layer) const { return compress_ratios[static_cast<std::size_t>(layer)]; }

  /// The layer whose compressed KV / top-k selection / index keys `layer` reads: the largest entry
  /// of the list that is <= layer. -1 for a layer of ratio 0.
  int kv_source(int layer) const;
  int index_source(int layer) const;
  int index_k_source(int layer) const;

  bool is_kv_source(int layer) const;
  bool is_index_source(int layer) const;
  bool is_index_k_source(int layer) const;

  bool has_engram(int layer) const { return engram_index(layer) >= 0; }
  /// Position of `layer` in engram_layer_ids, or -1.
  int engram_index(int layer) const;

  /// First layer of ratio 1: it splits the stack into encoder [0, n) and consumer [n, layers).
  int n_prefill_layer() const;

  /// Outputs of one hyper-connection site: pre S, post S, comb S x S.
  int hc_mix_count() const { return hc_mult * (hc_mult + 2); }

  /// Columns of one Engram layer: (N-1) n-gram sizes x heads.
  int engram_columns() const {
    return engram_layer_ids.empty() ? 0 : (engram_max_ngram_size - 1) * engram_n_heads;
  }
};

/// Parses and validates the text of a `config.json`. `origin` names the file in messages. Throws
/// Error(kCheckpoint) with file, key, what was found and what was expected, in the order of checks
/// of interface.md 4. Logs one warning for each unknown key.
ModelConfig parse_config(std::string_view json, const std::string& origin);

/// As parse_config, reading the file; Error(kCheckpoint) when it is missing or can't be read.
ModelConfig load_config(const std::filesystem::path& config_json);

}  // namespace deepinfer
