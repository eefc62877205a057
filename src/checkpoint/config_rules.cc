#include "checkpoint/config_rules.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "checkpoint/engram_primes.h"

namespace deepinfer {
namespace {

std::string text(const std::vector<int>& list) {
  std::string result = "[";
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) result += ", ";
    result += std::to_string(list[i]);
  }
  return result + "]";
}

/// Carries the file's name and the configuration through the groups of rules.
class Rules {
 public:
  Rules(const ModelConfig& config, const std::string& origin) : config_(config), origin_(origin) {}

  void check_all() const {
    check_widths();
    check_layer_lists();
    check_source_maps();
    check_candidates();
    check_experts();
    check_engram();
    check_draft();
    check_vision();
  }

 private:
  [[noreturn]] void fail(const std::string& key, const std::string& found,
                         const std::string& expected) const {
    fail_checkpoint(origin_ + ": " + key + ": found " + found + ", expected " + expected);
  }

  void require(bool holds, const char* key, std::int64_t found, const std::string& expected) const {
    if (!holds) fail(std::string("text_config.") + key, std::to_string(found), expected);
  }

  /// FP8 activations and caches have one scale per 32 values, FP4 weights one per 32 columns.
  void require_groups_of_32(const char* key, int value) const {
    require(value % 32 == 0, key, value, "a multiple of 32, the group of one scale");
  }

  void check_widths() const {
    require_groups_of_32("hidden_size", config_.hidden_size);
    require_groups_of_32("head_dim", config_.head_dim);
    require_groups_of_32("q_lora_rank", config_.q_lora_rank);
    require_groups_of_32("o_lora_rank", config_.o_lora_rank);
    require_groups_of_32("moe_intermediate_size", config_.moe_intermediate_size);
    require_groups_of_32("index_head_dim", config_.index_head_dim);
    require(config_.num_attention_heads % config_.o_groups == 0, "o_groups", config_.o_groups,
            "a divisor of num_attention_heads = " + std::to_string(config_.num_attention_heads));
    require(config_.qk_rope_head_dim % 2 == 0, "qk_rope_head_dim", config_.qk_rope_head_dim,
            "an even number");
    require(config_.qk_rope_head_dim <= config_.head_dim, "qk_rope_head_dim",
            config_.qk_rope_head_dim, "at most head_dim = " + std::to_string(config_.head_dim));
    require(config_.qk_rope_head_dim <= config_.index_head_dim, "qk_rope_head_dim",
            config_.qk_rope_head_dim,
            "at most index_head_dim = " + std::to_string(config_.index_head_dim));
  }

  void require_increasing(const char* key, const std::vector<int>& list) const {
    if (std::adjacent_find(list.begin(), list.end(), std::greater_equal<>()) != list.end()) {
      fail(std::string("text_config.") + key, text(list), "a strictly increasing list");
    }
  }

  void check_layer_lists() const {
    const auto layers = static_cast<std::size_t>(config_.num_hidden_layers);
    const auto drafts = static_cast<std::size_t>(config_.num_nextn_predict_layers);
    if (config_.compress_ratios.size() != layers + drafts) {
      fail("text_config.compress_ratios",
           std::to_string(config_.compress_ratios.size()) + " entries",
           std::to_string(layers + drafts) + ", num_hidden_layers + num_nextn_predict_layers");
    }
    for (std::size_t i = layers; i < layers + drafts; ++i) {
      if (config_.compress_ratios[i] != 0) {
        fail("text_config.compress_ratios[" + std::to_string(i) + "]",
             std::to_string(config_.compress_ratios[i]), "0 for a draft layer");
      }
    }
    require_increasing("kv_source_layer_ids", config_.kv_source_layer_ids);
    require_increasing("index_source_layer_ids", config_.index_source_layer_ids);
    require_increasing("index_k_source_layer_ids", config_.index_k_source_layer_ids);
    require_increasing("engram_layer_ids", config_.engram_layer_ids);
    require_increasing("dspark_target_layer_ids", config_.dspark_target_layer_ids);
    const int prefill = config_.n_prefill_layer();
    if (prefill == config_.num_hidden_layers) {
      fail(
          "text_config.compress_ratios", "no layer of ratio 1",
          "at least one: a model without a ratio-1 layer has no consumer half and isn't supported");
    }
    if (!config_.is_kv_source(prefill)) {
      fail("text_config.kv_source_layer_ids", text(config_.kv_source_layer_ids),
           "the first layer of ratio 1 (" + std::to_string(prefill) + ") among them");
    }
  }

  /// Every entry of `inner_key` must begin a segment of the list it refines, else one segment would
  /// read from two sources.
  void require_refines(const char* key, const std::vector<int>& list, const char* coarse_key,
                       const std::vector<int>& coarse) const {
    for (const int layer : coarse) {
      if (!std::binary_search(list.begin(), list.end(), layer)) {
        fail(std::string("text_config.") + key, text(list),
             "layer " + std::to_string(layer) + " of " + coarse_key + " among them");
      }
    }
  }

  void check_sources(const char* key, const std::vector<int>& list) const {
    const std::string name = std::string("text_config.") + key;
    for (const int source : list) {
      if (config_.ratio(source) == 0) {
        fail(name, "layer " + std::to_string(source) + " of ratio 0", "layers of ratio 1 or 2");
      }
    }
    for (int layer = 0; layer < config_.num_hidden_layers; ++layer) {
      const int ratio = config_.ratio(layer);
      if (ratio == 0) continue;
      const auto after = std::upper_bound(list.begin(), list.end(), layer);
      if (after == list.begin()) {
        fail(name, text(list),
             "a source at or before layer " + std::to_string(layer) + ", the first of ratio > 0");
      }
      const int source = *std::prev(after);
      if (config_.ratio(source) != ratio) {
        fail(name, text(list),
             "a source of ratio " + std::to_string(ratio) + " for layer " + std::to_string(layer) +
                 "; its source, layer " + std::to_string(source) + ", has ratio " +
                 std::to_string(config_.ratio(source)));
      }
    }
  }

  void check_source_maps() const {
    check_sources("kv_source_layer_ids", config_.kv_source_layer_ids);
    check_sources("index_k_source_layer_ids", config_.index_k_source_layer_ids);
    check_sources("index_source_layer_ids", config_.index_source_layer_ids);
    require_refines("index_k_source_layer_ids", config_.index_k_source_layer_ids,
                    "kv_source_layer_ids", config_.kv_source_layer_ids);
    require_refines("index_source_layer_ids", config_.index_source_layer_ids,
                    "index_k_source_layer_ids", config_.index_k_source_layer_ids);
  }

  void check_candidates() const {
    if (!config_.candidate_source_layer_id) return;
    const int source = *config_.candidate_source_layer_id;
    require(config_.is_index_source(source), "candidate_source_layer_id", source,
            "one of index_source_layer_ids " + text(config_.index_source_layer_ids));
    for (const int layer : config_.index_source_layer_ids) {
      require(layer <= source || config_.ratio(layer) == config_.ratio(source),
              "candidate_source_layer_id", source,
              "the ratio of every later index source; layer " + std::to_string(layer) + " has " +
                  std::to_string(config_.ratio(layer)) + ", not " +
                  std::to_string(config_.ratio(source)));
    }
    require(config_.candidate_topk_blocks % 8 == 0, "candidate_topk_blocks",
            config_.candidate_topk_blocks, "a multiple of 8");
    const std::int64_t entries =
        std::int64_t{config_.candidate_topk_blocks} * config_.candidate_block_size;
    require(entries >= config_.index_topk, "candidate_topk_blocks", config_.candidate_topk_blocks,
            "candidate_topk_blocks * candidate_block_size >= index_topk = " +
                std::to_string(config_.index_topk));
  }

  void check_experts() const {
    require(config_.num_experts_per_tok <= config_.n_routed_experts, "num_experts_per_tok",
            config_.num_experts_per_tok,
            "at most n_routed_experts = " + std::to_string(config_.n_routed_experts));
    // Bounds the number of tensors, and with it the memory of the catalogue.
    constexpr std::int64_t kMostExperts = 1 << 20;
    require(std::int64_t{config_.n_routed_experts} * config_.num_hidden_layers <= kMostExperts,
            "n_routed_experts", config_.n_routed_experts,
            "at most " + std::to_string(kMostExperts) + " experts in all layers");
  }

  void check_engram() const {
    if (config_.engram_layer_ids.empty()) return;
    require_groups_of_32("engram_head_dim", config_.engram_head_dim);
    const std::size_t layers = config_.engram_layer_ids.size();
    // Bounds the prime search.
    constexpr std::int64_t kMostColumns = 4096;
    require(static_cast<std::int64_t>(layers) * config_.engram_columns() <= kMostColumns,
            "engram_n_heads", config_.engram_n_heads,
            "at most " + std::to_string(kMostColumns) + " columns in all Engram layers");
    require(config_.engram_num_embeddings.size() == layers, "engram_num_embeddings",
            static_cast<std::int64_t>(config_.engram_num_embeddings.size()),
            std::to_string(layers) + " entries, one per engram_layer_ids");
    const auto primes = engram_primes(config_);
    for (std::size_t index = 0; index < layers; ++index) {
      const std::int64_t rows =
          std::accumulate(primes[index].begin(), primes[index].end(), std::int64_t{0});
      const std::string key = "engram_num_embeddings[" + std::to_string(index) + "]";
      require(config_.engram_num_embeddings[index] == rows, key.c_str(),
              config_.engram_num_embeddings[index],
              std::to_string(rows) + ", the sum of the bucket primes of layer " +
                  std::to_string(config_.engram_layer_ids[index]));
    }
  }

  void check_draft() const {
    if (config_.num_nextn_predict_layers == 0) return;
    require(!config_.dspark_target_layer_ids.empty(), "dspark_target_layer_ids", 0,
            "at least one layer");
    require(config_.dspark_num_experts_per_tok <= config_.dspark_n_routed_experts,
            "dspark_num_experts_per_tok", config_.dspark_num_experts_per_tok,
            "at most dspark_n_routed_experts = " + std::to_string(config_.dspark_n_routed_experts));
    constexpr std::int64_t kMostExperts = 1 << 20;
    require(std::int64_t{config_.dspark_n_routed_experts} * config_.num_nextn_predict_layers <=
                kMostExperts,
            "dspark_n_routed_experts", config_.dspark_n_routed_experts,
            "at most " + std::to_string(kMostExperts) + " experts in all draft layers");
  }

  void check_vision() const {
    if (!config_.vision) return;
    const VisionConfig& vision = *config_.vision;
    if (vision.hidden_size % vision.num_attention_heads != 0) {
      fail("vision_config.num_attention_heads", std::to_string(vision.num_attention_heads),
           "a divisor of hidden_size = " + std::to_string(vision.hidden_size));
    }
    // Two-dimensional rotary pairs (j, j + d/2), half of them by row and half by column.
    if (vision.hidden_size / vision.num_attention_heads % 4 != 0) {
      fail("vision_config.num_attention_heads", std::to_string(vision.num_attention_heads),
           "hidden_size / num_attention_heads to be a multiple of 4");
    }
  }

  const ModelConfig& config_;
  const std::string& origin_;
};

}  // namespace

void check_config_rules(const ModelConfig& config, const std::string& origin) {
  Rules(config, origin).check_all();
}

}  // namespace deepinfer
