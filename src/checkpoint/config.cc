#include "checkpoint/config.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/config_rules.h"
#include "checkpoint/json_util.h"

namespace deepinfer {
namespace {

using nlohmann::json;

// Upper bounds, far above any model of this family. They keep every product of the catalogue and of
// the caches inside int64 (hidden * streams < 2^26, rows * columns < 2^56), so that no later code
// has to ask.
constexpr std::int64_t kMaxWidth = 1 << 20;
constexpr std::int64_t kMaxVocabulary = 1 << 24;
constexpr std::int64_t kMaxLayers = 1024;
constexpr std::int64_t kMaxHeads = 4096;
constexpr std::int64_t kMaxHeadDim = 1 << 14;
constexpr std::int64_t kMaxStreams = 64;
constexpr std::int64_t kMaxExperts = 8192;
constexpr std::int64_t kMaxPositions = 1 << 30;
constexpr std::int64_t kMaxEngramRows = std::int64_t{1} << 40;
constexpr std::int64_t kMaxEngramVocabulary = std::int64_t{1} << 31;
constexpr std::int64_t kMaxNgram = 16;
constexpr std::int64_t kMaxEngramHeads = 256;

std::vector<int> to_ints(const std::vector<std::int64_t>& values) {
  return {values.begin(), values.end()};
}

int width(JsonSection& section, const std::string& key, std::int64_t high = kMaxWidth) {
  return static_cast<int>(section.integer(key, 1, high));
}

TokenId token_id(JsonSection& section, const std::string& key, int vocab_size) {
  return static_cast<TokenId>(section.integer(key, 0, vocab_size - 1));
}

void check_architecture(JsonSection& top) {
  const json& architectures = top.require("architectures", "a list of exactly one architecture");
  if (!architectures.is_array() || architectures.size() != 1) {
    top.fail("architectures", describe(architectures), "a list of exactly one architecture");
  }
  if (architectures[0] != "DeepseekV41ForCausalLM") {
    top.fail("architectures", describe(architectures[0]), "\"DeepseekV41ForCausalLM\"");
  }
  top.require_equal("model_type", "deepseek_v41");
}

void check_quantization(JsonSection& top, const std::string& origin, ModelConfig& config) {
  JsonSection quantization(top.require("quantization_config", "an object"), "quantization_config",
                           origin);
  quantization.require_equal("quant_method", "fp8");
  quantization.require_equal("expert_dtype", "fp4");
  quantization.require_equal("activation_scheme", "dynamic");
  quantization.require_equal("weight_block_size", json::array({32, 32}));
  quantization.require_equal("scale_fmt", "ue8m0");
  const auto unread = quantization.unread();
  config.unknown_keys.insert(config.unknown_keys.end(), unread.begin(), unread.end());
}

void read_rope(JsonSection& text, const std::string& origin, ModelConfig& config) {
  config.rope_theta = text.number("rope_theta", 1.0 + 1e-6, 1e15);
  config.compress_rope_theta = text.number("compress_rope_theta", 1.0 + 1e-6, 1e15);
  JsonSection scaling(text.require("rope_scaling", "an object"), text.full_name("rope_scaling"),
                      origin);
  scaling.require_equal("rope_type", "yarn");
  config.rope_scaling.factor = scaling.number("factor", 1.0, 1e6);
  config.rope_scaling.beta_fast = scaling.number("beta_fast", 1e-6, 1e6);
  config.rope_scaling.beta_slow = scaling.number("beta_slow", 1e-6, 1e6);
  config.rope_scaling.original_max_position_embeddings =
      width(scaling, "original_max_position_embeddings", kMaxPositions);
  if (config.rope_scaling.beta_slow > config.rope_scaling.beta_fast) {
    scaling.fail("beta_slow", describe(config.rope_scaling.beta_slow),
                 "at most beta_fast = " + describe(config.rope_scaling.beta_fast));
  }
  const auto unread = scaling.unread();
  config.unknown_keys.insert(config.unknown_keys.end(), unread.begin(), unread.end());
}

void read_attention(JsonSection& text, ModelConfig& config) {
  config.num_attention_heads = width(text, "num_attention_heads", kMaxHeads);
  config.head_dim = width(text, "head_dim", kMaxHeadDim);
  config.qk_rope_head_dim = width(text, "qk_rope_head_dim", kMaxHeadDim);
  config.q_lora_rank = width(text, "q_lora_rank");
  config.o_groups = width(text, "o_groups", kMaxHeads);
  config.o_lora_rank = width(text, "o_lora_rank", kMaxHeadDim);
  config.sliding_window = width(text, "sliding_window");
  config.compress_ratios = to_ints(text.integers("compress_ratios", 0, 2));
  const std::int64_t last_layer = config.num_hidden_layers - 1;
  config.kv_source_layer_ids = to_ints(text.integers("kv_source_layer_ids", 0, last_layer));
  config.index_source_layer_ids = to_ints(text.integers("index_source_layer_ids", 0, last_layer));
  config.index_k_source_layer_ids =
      text.find("index_k_source_layer_ids") == nullptr
          ? config.kv_source_layer_ids
          : to_ints(text.integers("index_k_source_layer_ids", 0, last_layer));
  config.index_n_heads = width(text, "index_n_heads", kMaxHeads);
  config.index_head_dim = width(text, "index_head_dim", kMaxHeadDim);
  config.index_topk = width(text, "index_topk");
  const auto candidate = text.integer_or("candidate_source_layer_id", INT32_MIN, last_layer, -1);
  if (candidate >= 0) {
    config.candidate_source_layer_id = static_cast<int>(candidate);
    config.candidate_topk_blocks = width(text, "candidate_topk_blocks");
    config.candidate_block_size = width(text, "candidate_block_size", 16);
  } else {
    text.ignore({"candidate_topk_blocks", "candidate_block_size"});
  }
  config.use_fp4_sparse_kv = text.boolean_or("use_fp4_sparse_kv", true);
}

void read_engram(JsonSection& text, ModelConfig& config) {
  if (const json* list = text.find("engram_layer_ids"); list == nullptr || list->empty()) {
    text.ignore({"engram_vocab_size", "engram_num_embeddings", "engram_max_ngram_size",
                 "engram_n_heads", "engram_head_dim", "engram_pad_token_id",
                 "engram_compressed_vocab_size"});
    return;
  }
  config.engram_layer_ids =
      to_ints(text.integers("engram_layer_ids", 0, config.num_hidden_layers - 1));
  config.engram_vocab_size = text.integer("engram_vocab_size", 1, kMaxEngramVocabulary);
  config.engram_num_embeddings = text.integers("engram_num_embeddings", 1, kMaxEngramRows);
  config.engram_max_ngram_size =
      static_cast<int>(text.integer("engram_max_ngram_size", 2, kMaxNgram));
  config.engram_n_heads = width(text, "engram_n_heads", kMaxEngramHeads);
  config.engram_head_dim = width(text, "engram_head_dim", kMaxHeadDim);
  config.engram_pad_token_id = token_id(text, "engram_pad_token_id", config.vocab_size);
  config.engram_compressed_vocab_size =
      width(text, "engram_compressed_vocab_size", config.vocab_size);
}

void read_draft(JsonSection& text, ModelConfig& config) {
  config.num_nextn_predict_layers =
      static_cast<int>(text.integer_or("num_nextn_predict_layers", 0, kMaxLayers, 0));
  text.allow_only("dspark_target_attn_input", true);
  if (config.num_nextn_predict_layers == 0) {
    text.ignore({"dspark_block_size", "dspark_noise_token_id", "dspark_target_layer_ids",
                 "dspark_markov_rank", "dspark_n_routed_experts", "dspark_num_experts_per_tok"});
    return;
  }
  config.dspark_block_size = width(text, "dspark_block_size", 1024);
  config.dspark_noise_token_id = token_id(text, "dspark_noise_token_id", config.vocab_size);
  config.dspark_target_layer_ids =
      to_ints(text.integers("dspark_target_layer_ids", 0, config.num_hidden_layers - 1));
  config.dspark_markov_rank = width(text, "dspark_markov_rank");
  config.dspark_n_routed_experts = width(text, "dspark_n_routed_experts", kMaxExperts);
  config.dspark_num_experts_per_tok = width(text, "dspark_num_experts_per_tok", kMaxExperts);
}

void read_experts(JsonSection& text, ModelConfig& config) {
  config.n_routed_experts = width(text, "n_routed_experts", kMaxExperts);
  // The tensor table knows one shared expert of the routed experts' width.
  config.n_shared_experts = static_cast<int>(text.integer("n_shared_experts", 1, 1));
  config.num_experts_per_tok = width(text, "num_experts_per_tok", kMaxExperts);
  config.moe_intermediate_size = width(text, "moe_intermediate_size");
  config.routed_scaling_factor = text.number("routed_scaling_factor", 1e-6, 1e6);
  config.swiglu_limit = text.number_or("swiglu_limit", 0.0, 1e6, 0.0);
  text.allow_only("scoring_func", "sqrtsoftplus");
  text.allow_only("topk_method", "noaux_tc");
  text.allow_only("norm_topk_prob", true);
}

void read_text(JsonSection& text, const std::string& origin, ModelConfig& config) {
  text.allow_only("model_type", "deepseek_v41_text");
  text.allow_only("tie_word_embeddings", false);
  text.allow_only("hc_shifted", true);
  text.ignore({"initializer_range", "use_cache"});
  config.vocab_size = width(text, "vocab_size", kMaxVocabulary);
  config.hidden_size = width(text, "hidden_size");
  config.num_hidden_layers = width(text, "num_hidden_layers", kMaxLayers);
  // Below the smallest normal float, an epsilon is no protection against dividing by zero.
  config.rms_norm_eps = text.number("rms_norm_eps", 1.2e-38, 1.0);
  config.max_position_embeddings = width(text, "max_position_embeddings", kMaxPositions);
  read_rope(text, origin, config);
  read_attention(text, config);
  config.hc_mult = width(text, "hc_mult", kMaxStreams);
  config.hc_sinkhorn_iters = width(text, "hc_sinkhorn_iters", 10000);
  config.hc_eps = text.number("hc_eps", 1.2e-38, 1.0);
  read_experts(text, config);
  read_engram(text, config);
  read_draft(text, config);
}

VisionConfig read_vision(JsonSection& vision) {
  vision.allow_only("model_type", "deepseek_v41_vision");
  VisionConfig config;
  config.hidden_size = width(vision, "hidden_size");
  config.intermediate_size = width(vision, "intermediate_size");
  config.num_hidden_layers = width(vision, "num_hidden_layers", kMaxLayers);
  config.num_attention_heads = width(vision, "num_attention_heads", kMaxHeads);
  config.patch_size = width(vision, "patch_size", 256);
  config.downsample_ratio = width(vision, "downsample_ratio", 16);
  config.rope_theta = vision.number_or("rope_theta", 1.0 + 1e-6, 1e15, 10000.0);
  // The smallest image span: start, one image token, one newline, end.
  config.max_image_tokens =
      static_cast<int>(vision.integer_or("max_image_tokens", 4, kMaxWidth, 1024));
  config.min_pixels = vision.integer_or("min_pixels", 1, kMaxPositions, 295936);
  if (vision.find("max_wh_ratio") != nullptr) {
    config.max_wh_ratio = vision.number("max_wh_ratio", 1e-6, 1e6);
  }
  return config;
}

void read_tokens(JsonSection& top, ModelConfig& config) {
  config.bos_token_id = token_id(top, "bos_token_id", config.vocab_size);
  config.eos_token_id = token_id(top, "eos_token_id", config.vocab_size);
  config.pad_token_id = token_id(top, "pad_token_id", config.vocab_size);
  if (config.vision || top.find("image_token_id") != nullptr) {
    config.image_token_id = token_id(top, "image_token_id", config.vocab_size);
  } else {
    config.image_token_id = -1;
  }
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    fail_checkpoint(path.string() + ": " +
                    (std::filesystem::exists(path) ? "can't be read" : "no such file"));
  }
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad() || text.bad()) fail_checkpoint(path.string() + ": can't be read");
  return std::move(text).str();
}

/// The largest entry of an increasing list that is <= layer, or -1.
int latest(const std::vector<int>& list, int layer) {
  const auto after = std::upper_bound(list.begin(), list.end(), layer);
  return after == list.begin() ? -1 : *std::prev(after);
}

bool contains(const std::vector<int>& list, int layer) {
  return std::binary_search(list.begin(), list.end(), layer);
}

}  // namespace

int ModelConfig::kv_source(int layer) const {
  return ratio(layer) == 0 ? -1 : latest(kv_source_layer_ids, layer);
}
int ModelConfig::index_source(int layer) const {
  return ratio(layer) == 0 ? -1 : latest(index_source_layer_ids, layer);
}
int ModelConfig::index_k_source(int layer) const {
  return ratio(layer) == 0 ? -1 : latest(index_k_source_layer_ids, layer);
}
bool ModelConfig::is_kv_source(int layer) const { return contains(kv_source_layer_ids, layer); }
bool ModelConfig::is_index_source(int layer) const {
  return contains(index_source_layer_ids, layer);
}
bool ModelConfig::is_index_k_source(int layer) const {
  return contains(index_k_source_layer_ids, layer);
}

int ModelConfig::engram_index(int layer) const {
  const auto found = std::find(engram_layer_ids.begin(), engram_layer_ids.end(), layer);
  return found == engram_layer_ids.end() ? -1 : static_cast<int>(found - engram_layer_ids.begin());
}

int ModelConfig::n_prefill_layer() const {
  const auto end = compress_ratios.begin() + num_hidden_layers;
  return static_cast<int>(std::find(compress_ratios.begin(), end, 1) - compress_ratios.begin());
}

ModelConfig parse_config(std::string_view json_text, const std::string& origin) {
  const json document = parse_strict_json(json_text, origin);
  ModelConfig config;
  JsonSection top(document, "", origin);
  // The order of interface.md 4, so that the first message is the one users of deepinfer know.
  check_architecture(top);
  JsonSection text(top.require("text_config", "an object"), "text_config", origin);
  text.require_equal("hidden_act", "silu");
  text.require_equal("attention_bias", false);
  text.require_equal("attention_dropout", 0.0);
  text.require_equal("num_key_value_heads", 1);
  top.require_equal("dtype", "bfloat16");
  check_quantization(top, origin, config);

  read_text(text, origin, config);
  const json* vision_object = top.find("vision_config");
  if (vision_object != nullptr) {
    JsonSection vision(*vision_object, "vision_config", origin);
    config.vision = read_vision(vision);
    const auto unread = vision.unread();
    config.unknown_keys.insert(config.unknown_keys.end(), unread.begin(), unread.end());
  }
  read_tokens(top, config);
  top.allow_only("tie_word_embeddings", false);
  top.ignore({"transformers_version"});
  if (top.find("tokenizer_compatibility") != nullptr) {
    const std::string mode = top.text("tokenizer_compatibility");
    if (mode != "release" && mode != "native") {
      top.fail("tokenizer_compatibility", describe(mode), "\"release\" or \"native\"");
    }
    config.tokenizer_compatibility =
        mode == "native" ? TokenizerCompatibility::kNative : TokenizerCompatibility::kRelease;
  }
  check_config_rules(config, origin);

  for (const JsonSection* section : {&text, &top}) {
    const auto unread = section->unread();
    config.unknown_keys.insert(config.unknown_keys.end(), unread.begin(), unread.end());
  }
  std::sort(config.unknown_keys.begin(), config.unknown_keys.end());
  for (const std::string& key : config.unknown_keys) {
    log_warn(origin + ": " + key + ": unknown key, ignored");
  }
  return config;
}

ModelConfig load_config(const std::filesystem::path& config_json) {
  return parse_config(read_file(config_json), config_json.string());
}

}  // namespace deepinfer
