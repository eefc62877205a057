#include "checkpoint/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/testing/test_files.h"

namespace deepinfer {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string real_text() {
  return testing::read_file(std::filesystem::path(DEEPINFER_CHECKPOINT_TESTDATA_DIR) /
                            "real_config.json");
}

/// The message of the Error(kCheckpoint) that parsing must end in.
std::string refusal(const std::string& text) {
  try {
    parse_config(text, "dir/config.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    EXPECT_THAT(error.what(), HasSubstr("dir/config.json: "));
    return error.what();
  }
  return "accepted";
}

/// The real configuration with the value at a JSON pointer replaced; "-" as the value removes it.
std::string patched(const std::string& pointer, const std::string& value) {
  const json document = json::parse(real_text());
  const json::json_pointer target(pointer);
  json patch = json::array();
  if (value == "-") {
    patch.push_back({{"op", "remove"}, {"path", pointer}});
  } else {
    patch.push_back({{"op", document.contains(target) ? "replace" : "add"},
                     {"path", pointer},
                     {"value", json::parse(value)}});
  }
  return document.patch(patch).dump();
}

TEST(ModelConfig, ReadsEveryKeyOfTheRealModel) {
  const ModelConfig config = parse_config(real_text(), "config.json");
  EXPECT_EQ(config.bos_token_id, 0);
  EXPECT_EQ(config.eos_token_id, 1);
  EXPECT_EQ(config.pad_token_id, 2);
  EXPECT_EQ(config.image_token_id, 129264);
  EXPECT_EQ(config.tokenizer_compatibility, TokenizerCompatibility::kRelease);
  EXPECT_EQ(config.vocab_size, 129280);
  EXPECT_EQ(config.hidden_size, 5120);
  EXPECT_EQ(config.num_hidden_layers, 40);
  EXPECT_EQ(config.num_attention_heads, 64);
  EXPECT_EQ(config.head_dim, 512);
  EXPECT_EQ(config.qk_rope_head_dim, 64);
  EXPECT_EQ(config.q_lora_rank, 1280);
  EXPECT_EQ(config.o_groups, 8);
  EXPECT_EQ(config.o_lora_rank, 1024);
  EXPECT_EQ(config.swiglu_limit, 10.0);
  EXPECT_EQ(config.rms_norm_eps, 1e-20);
  EXPECT_EQ(config.max_position_embeddings, 1048576);
  EXPECT_EQ(config.rope_theta, 10000.0);
  EXPECT_EQ(config.compress_rope_theta, 160000.0);
  EXPECT_EQ(config.rope_scaling.factor, 16.0);
  EXPECT_EQ(config.rope_scaling.beta_fast, 32.0);
  EXPECT_EQ(config.rope_scaling.beta_slow, 1.0);
  EXPECT_EQ(config.rope_scaling.original_max_position_embeddings, 65536);
  EXPECT_EQ(config.sliding_window, 128);
  EXPECT_EQ(config.compress_ratios.size(), 43U);
  EXPECT_THAT(config.kv_source_layer_ids, ElementsAre(2, 8, 14, 20));
  EXPECT_THAT(config.index_source_layer_ids, ElementsAre(2, 8, 14, 20, 24, 28, 32, 36));
  EXPECT_THAT(config.index_k_source_layer_ids, ElementsAre(2, 8, 14, 20));
  EXPECT_EQ(config.index_n_heads, 32);
  EXPECT_EQ(config.index_head_dim, 128);
  EXPECT_EQ(config.index_topk, 512);
  EXPECT_EQ(config.candidate_source_layer_id, 20);
  EXPECT_EQ(config.candidate_topk_blocks, 2048);
  EXPECT_EQ(config.candidate_block_size, 8);
  EXPECT_TRUE(config.use_fp4_sparse_kv);
  EXPECT_EQ(config.hc_mult, 4);
  EXPECT_EQ(config.hc_sinkhorn_iters, 20);
  EXPECT_EQ(config.hc_eps, 1e-6);
  EXPECT_EQ(config.n_routed_experts, 384);
  EXPECT_EQ(config.n_shared_experts, 1);
  EXPECT_EQ(config.num_experts_per_tok, 6);
  EXPECT_EQ(config.moe_intermediate_size, 2304);
  EXPECT_EQ(config.routed_scaling_factor, 1.5);
  EXPECT_THAT(config.engram_layer_ids, ElementsAre(1, 14));
  EXPECT_EQ(config.engram_vocab_size, 16000000);
  EXPECT_THAT(config.engram_num_embeddings, ElementsAre(384006168, 384016682));
  EXPECT_EQ(config.engram_max_ngram_size, 4);
  EXPECT_EQ(config.engram_n_heads, 8);
  EXPECT_EQ(config.engram_head_dim, 256);
  EXPECT_EQ(config.engram_pad_token_id, 2);
  EXPECT_EQ(config.engram_compressed_vocab_size, 99092);
  EXPECT_EQ(config.num_nextn_predict_layers, 3);
  EXPECT_EQ(config.dspark_block_size, 5);
  EXPECT_EQ(config.dspark_noise_token_id, 128799);
  EXPECT_THAT(config.dspark_target_layer_ids, ElementsAre(37, 38, 39));
  EXPECT_EQ(config.dspark_markov_rank, 256);
  EXPECT_EQ(config.dspark_n_routed_experts, 128);
  EXPECT_EQ(config.dspark_num_experts_per_tok, 3);
  ASSERT_TRUE(config.vision.has_value());
  EXPECT_EQ(config.vision->hidden_size, 1024);
  EXPECT_EQ(config.vision->intermediate_size, 2816);
  EXPECT_EQ(config.vision->num_hidden_layers, 32);
  EXPECT_EQ(config.vision->num_attention_heads, 16);
  EXPECT_EQ(config.vision->patch_elements(), 588);
  EXPECT_EQ(config.vision->downsample_ratio, 3);
  EXPECT_EQ(config.vision->max_image_tokens, 1024);
  EXPECT_EQ(config.vision->min_pixels, 295936);
  EXPECT_FALSE(config.vision->max_wh_ratio.has_value());
  EXPECT_TRUE(config.unknown_keys.empty());
}

TEST(ModelConfig, MapsLayersToTheirSourcesAsTheModelTableSays) {
  const ModelConfig config = parse_config(real_text(), "config.json");
  EXPECT_EQ(config.n_prefill_layer(), 20);
  EXPECT_EQ(config.hc_mix_count(), 24);
  EXPECT_EQ(config.engram_columns(), 24);
  for (int layer = 0; layer < 43; ++layer) {
    const bool window = layer < 2 || layer >= 40;
    const int kv = window ? -1 : layer < 8 ? 2 : layer < 14 ? 8 : layer < 20 ? 14 : 20;
    const int index = window ? -1 : layer < 24 ? kv : layer / 4 * 4;
    EXPECT_EQ(config.ratio(layer), window ? 0 : layer < 20 ? 2 : 1) << layer;
    EXPECT_EQ(config.kv_source(layer), kv) << layer;
    EXPECT_EQ(config.index_k_source(layer), kv) << layer;
    EXPECT_EQ(config.index_source(layer), index) << layer;
    EXPECT_EQ(config.is_kv_source(layer), kv == layer) << layer;
    EXPECT_EQ(config.is_index_source(layer), index == layer) << layer;
    EXPECT_EQ(config.is_index_k_source(layer), kv == layer) << layer;
    EXPECT_EQ(config.engram_index(layer), layer == 1 ? 0 : layer == 14 ? 1 : -1) << layer;
  }
}

TEST(ModelConfig, ReadsTheGoldenCheckpoint) {
  const auto config =
      load_config(std::filesystem::path(DEEPINFER_GOLDEN_DIR) / "tiny-random" / "config.json");
  EXPECT_EQ(config.tokenizer_compatibility, TokenizerCompatibility::kNative);
  EXPECT_EQ(config.n_prefill_layer(), 5);
  EXPECT_EQ(config.index_source(8), 7);
  EXPECT_EQ(config.kv_source(8), 5);
  EXPECT_TRUE(config.unknown_keys.empty());
}

TEST(ModelConfig, AbsentKeysTakeTheirDocumentedDefaults) {
  const auto with = [](const std::string& pointer, const std::string& value) {
    return parse_config(patched(pointer, value), "config.json");
  };
  EXPECT_EQ(with("/text_config/swiglu_limit", "-").swiglu_limit, 0.0);
  EXPECT_FALSE(with("/text_config/candidate_source_layer_id", "null").candidate_source_layer_id);
  EXPECT_FALSE(with("/text_config/candidate_source_layer_id", "-1").candidate_source_layer_id);
  EXPECT_FALSE(with("/text_config/candidate_source_layer_id", "-").candidate_source_layer_id);
  EXPECT_TRUE(with("/text_config/engram_layer_ids", "-").engram_layer_ids.empty());
  EXPECT_TRUE(with("/text_config/engram_layer_ids", "[]").engram_num_embeddings.empty());
  EXPECT_EQ(with("/text_config/engram_layer_ids", "[]").engram_columns(), 0);
  EXPECT_FALSE(with("/text_config/use_fp4_sparse_kv", "false").use_fp4_sparse_kv);
  EXPECT_FALSE(with("/vision_config", "-").vision.has_value());
  EXPECT_EQ(with("/vision_config/max_wh_ratio", "3.5").vision->max_wh_ratio, 3.5);
  EXPECT_EQ(with("/tokenizer_compatibility", "\"native\"").tokenizer_compatibility,
            TokenizerCompatibility::kNative);
  EXPECT_THAT(
      with("/text_config/index_k_source_layer_ids", "[2,8,14,20,28]").index_k_source_layer_ids,
      ElementsAre(2, 8, 14, 20, 28));
  json without_draft = json::parse(real_text());
  without_draft["text_config"].erase("num_nextn_predict_layers");
  for (int i = 0; i < 3; ++i) without_draft["text_config"]["compress_ratios"].erase(40);
  EXPECT_EQ(parse_config(without_draft.dump(), "config.json").num_nextn_predict_layers, 0);
}

TEST(ModelConfig, UnknownKeysGiveOneWarningEachAndAreListed) {
  json document = json::parse(real_text());
  document["zebra"] = 1;
  document["text_config"]["horse"] = {{"deep", 1}};
  document["text_config"]["rope_scaling"]["mule"] = nullptr;
  document["quantization_config"]["pony"] = 1;
  document["vision_config"]["donkey"] = 1;
  ::testing::internal::CaptureStderr();
  const ModelConfig config = parse_config(document.dump(), "config.json");
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(config.unknown_keys,
              ElementsAre("quantization_config.pony", "text_config.horse",
                          "text_config.rope_scaling.mule", "vision_config.donkey", "zebra"));
  if (log_level() <= LogLevel::kWarn) {
    for (const std::string& key : config.unknown_keys) EXPECT_THAT(log, HasSubstr(key));
  }
}

TEST(ModelConfig, RefusesTextThatIsNoConfiguration) {
  EXPECT_THAT(refusal(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(refusal("{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(real_text() + "x"), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal("{\"model_type\": 1, \"model_type\": 1}"),
              HasSubstr("\"model_type\" stands twice"));
  EXPECT_THAT(refusal(patched("/text_config", "3")),
              HasSubstr("text_config: found 3, expected an object"));
  EXPECT_THAT(refusal(patched("/text_config", "-")), HasSubstr("text_config: found no such key"));
  try {
    load_config("/nonexistent/config.json");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    EXPECT_THAT(error.what(), HasSubstr("/nonexistent/config.json: no such file"));
  }
}

TEST(ModelConfig, ChecksInTheOrderOfTheInterfacePage) {
  // Everything that the page lists is broken at once; mending one after the other shows the next.
  json document = json::parse(real_text());
  const std::vector<std::pair<std::string, std::string>> order{
      {"/architectures", "architectures"},
      {"/model_type", "model_type"},
      {"/text_config/hidden_act", "text_config.hidden_act"},
      {"/text_config/attention_bias", "text_config.attention_bias"},
      {"/text_config/attention_dropout", "text_config.attention_dropout"},
      {"/text_config/num_key_value_heads", "text_config.num_key_value_heads"},
      {"/dtype", "dtype"},
      {"/quantization_config/quant_method", "quantization_config.quant_method"},
      {"/quantization_config/expert_dtype", "quantization_config.expert_dtype"},
      {"/quantization_config/activation_scheme", "quantization_config.activation_scheme"},
      {"/quantization_config/weight_block_size", "quantization_config.weight_block_size"},
      {"/quantization_config/scale_fmt", "quantization_config.scale_fmt"},
      {"/text_config/hidden_size", "text_config.hidden_size"}};
  const json good = document;
  for (const auto& [pointer, key] : order) document[json::json_pointer(pointer)] = "broken";
  for (const auto& [pointer, key] : order) {
    EXPECT_THAT(refusal(document.dump()), HasSubstr("config.json: " + key + ": found "));
    document[json::json_pointer(pointer)] = good[json::json_pointer(pointer)];
  }
}

struct BrokenRule {
  const char* pointer;
  const char* value;
  const char* message;
};

class ConfigRule : public ::testing::TestWithParam<BrokenRule> {};

TEST_P(ConfigRule, IsRefusedWithKeyFoundAndExpected) {
  const BrokenRule& rule = GetParam();
  EXPECT_THAT(refusal(patched(rule.pointer, rule.value)), HasSubstr(rule.message));
}

// Top level and quantization.
INSTANTIATE_TEST_SUITE_P(
    Fixed, ConfigRule,
    ::testing::Values(
        BrokenRule{"/architectures", "[]", "a list of exactly one architecture"},
        BrokenRule{"/architectures", "-", "architectures: found no such key"},
        BrokenRule{"/architectures", "[\"DeepseekV41ForCausalLM\",\"B\"]", "exactly one"},
        BrokenRule{"/architectures", "[\"DeepseekV4ForCausalLM\"]",
                   "architectures: found \"DeepseekV4ForCausalLM\""},
        BrokenRule{"/model_type", "\"deepseek_v4\"",
                   "model_type: found \"deepseek_v4\", expected \"deepseek_v41\""},
        BrokenRule{"/model_type", "-", "model_type: found no such key"},
        BrokenRule{"/dtype", "\"float16\"", "dtype: found \"float16\", expected \"bfloat16\""},
        BrokenRule{"/dtype", "-", "dtype: found no such key"},
        BrokenRule{"/tie_word_embeddings", "true", "tie_word_embeddings: found true"},
        BrokenRule{"/tokenizer_compatibility", "\"old\"", "\"release\" or \"native\""},
        BrokenRule{"/quantization_config", "-", "quantization_config: found no such key"},
        BrokenRule{"/quantization_config/quant_method", "\"awq\"", "expected \"fp8\""},
        BrokenRule{"/quantization_config/expert_dtype", "\"fp8\"", "expected \"fp4\""},
        BrokenRule{"/quantization_config/activation_scheme", "\"static\"", "expected \"dynamic\""},
        BrokenRule{"/quantization_config/weight_block_size", "[128,128]", "expected [32,32]"},
        BrokenRule{"/quantization_config/scale_fmt", "\"float\"", "expected \"ue8m0\""},
        BrokenRule{"/text_config/model_type", "\"x\"", "expected \"deepseek_v41_text\""},
        BrokenRule{"/text_config/hidden_act", "\"gelu\"", "expected \"silu\""},
        BrokenRule{"/text_config/hidden_act", "-", "hidden_act: found no such key"},
        BrokenRule{"/text_config/attention_bias", "true", "expected false"},
        BrokenRule{"/text_config/attention_dropout", "0.1", "expected 0.0"},
        BrokenRule{"/text_config/num_key_value_heads", "2", "expected 1"},
        BrokenRule{"/text_config/tie_word_embeddings", "true", "expected false"},
        BrokenRule{"/text_config/hc_shifted", "false", "hc_shifted: found false, expected true"},
        BrokenRule{"/text_config/scoring_func", "\"sigmoid\"", "expected \"sqrtsoftplus\""},
        BrokenRule{"/text_config/topk_method", "\"greedy\"", "expected \"noaux_tc\""},
        BrokenRule{"/text_config/norm_topk_prob", "false", "norm_topk_prob: found false"},
        BrokenRule{"/text_config/dspark_target_attn_input", "false", "expected true"},
        BrokenRule{"/text_config/rope_scaling/rope_type", "\"linear\"", "expected \"yarn\""},
        BrokenRule{"/text_config/use_fp4_sparse_kv", "1", "found 1, expected true or false"},
        BrokenRule{"/vision_config/model_type", "\"x\"", "expected \"deepseek_v41_vision\""}));

// Ranges of single values.
INSTANTIATE_TEST_SUITE_P(
    Ranges, ConfigRule,
    ::testing::Values(
        BrokenRule{"/text_config/vocab_size", "0", "vocab_size: found 0, expected an integer in"},
        BrokenRule{"/text_config/vocab_size", "100000000", "vocab_size: found 100000000"},
        BrokenRule{"/text_config/hidden_size", "-5120", "hidden_size: found -5120"},
        BrokenRule{"/text_config/hidden_size", "5120.0", "hidden_size: found 5120.0"},
        BrokenRule{"/text_config/hidden_size", "\"5120\"", "hidden_size: found \"5120\""},
        BrokenRule{"/text_config/hidden_size", "18446744073709551615",
                   "hidden_size: found 1844674"},
        BrokenRule{"/text_config/hidden_size", "-", "hidden_size: found no such key"},
        BrokenRule{"/text_config/hidden_size", "null", "hidden_size: found null"},
        BrokenRule{"/text_config/num_hidden_layers", "2000000000", "num_hidden_layers: found"},
        BrokenRule{"/text_config/num_attention_heads", "0", "num_attention_heads: found 0"},
        BrokenRule{"/text_config/head_dim", "1000000", "head_dim: found 1000000"},
        BrokenRule{"/text_config/q_lora_rank", "0", "q_lora_rank: found 0"},
        BrokenRule{"/text_config/swiglu_limit", "-1", "swiglu_limit: found -1"},
        BrokenRule{"/text_config/rms_norm_eps", "0", "rms_norm_eps: found 0"},
        BrokenRule{"/text_config/rms_norm_eps", "1e-40", "rms_norm_eps: found 1e-40"},
        BrokenRule{"/text_config/max_position_embeddings", "0", "max_position_embeddings: found 0"},
        BrokenRule{"/text_config/rope_theta", "1", "rope_theta: found 1"},
        BrokenRule{"/text_config/compress_rope_theta", "-1", "compress_rope_theta: found -1"},
        BrokenRule{"/text_config/rope_scaling", "null", "rope_scaling: found null"},
        BrokenRule{"/text_config/rope_scaling/factor", "0", "rope_scaling.factor: found 0"},
        BrokenRule{"/text_config/rope_scaling/beta_fast", "0", "beta_fast: found 0"},
        BrokenRule{"/text_config/rope_scaling/beta_slow", "33", "at most beta_fast = 32"},
        BrokenRule{"/text_config/rope_scaling/original_max_position_embeddings", "0",
                   "original_max_position_embeddings: found 0"},
        BrokenRule{"/text_config/sliding_window", "0", "sliding_window: found 0"},
        BrokenRule{"/text_config/index_topk", "0", "index_topk: found 0"},
        BrokenRule{"/text_config/index_n_heads", "0", "index_n_heads: found 0"},
        BrokenRule{"/text_config/candidate_block_size", "17", "candidate_block_size: found 17"},
        BrokenRule{"/text_config/candidate_topk_blocks", "0", "candidate_topk_blocks: found 0"},
        BrokenRule{"/text_config/hc_mult", "0", "hc_mult: found 0"},
        BrokenRule{"/text_config/hc_mult", "65", "hc_mult: found 65"},
        BrokenRule{"/text_config/hc_sinkhorn_iters", "0", "hc_sinkhorn_iters: found 0"},
        BrokenRule{"/text_config/hc_eps", "0", "hc_eps: found 0"},
        BrokenRule{"/text_config/n_routed_experts", "0", "n_routed_experts: found 0"},
        BrokenRule{"/text_config/n_shared_experts", "2", "n_shared_experts: found 2"},
        BrokenRule{"/text_config/num_experts_per_tok", "0", "num_experts_per_tok: found 0"},
        BrokenRule{"/text_config/routed_scaling_factor", "0", "routed_scaling_factor: found 0"},
        BrokenRule{"/text_config/engram_vocab_size", "0", "engram_vocab_size: found 0"},
        BrokenRule{"/text_config/engram_max_ngram_size", "1", "engram_max_ngram_size: found 1"},
        BrokenRule{"/text_config/engram_n_heads", "0", "engram_n_heads: found 0"},
        BrokenRule{"/text_config/engram_compressed_vocab_size", "129281",
                   "engram_compressed_vocab_size: found 129281"},
        BrokenRule{"/text_config/num_nextn_predict_layers", "-1", "num_nextn_predict_layers"},
        BrokenRule{"/text_config/dspark_block_size", "0", "dspark_block_size: found 0"},
        BrokenRule{"/text_config/dspark_markov_rank", "0", "dspark_markov_rank: found 0"},
        BrokenRule{"/vision_config", "[]", "vision_config: found []"},
        BrokenRule{"/vision_config/hidden_size", "0", "vision_config.hidden_size: found 0"},
        BrokenRule{"/vision_config/patch_size", "0", "vision_config.patch_size: found 0"},
        BrokenRule{"/vision_config/max_image_tokens", "3", "max_image_tokens: found 3"},
        BrokenRule{"/vision_config/min_pixels", "0", "min_pixels: found 0"},
        BrokenRule{"/vision_config/max_wh_ratio", "0", "max_wh_ratio: found 0"},
        BrokenRule{"/bos_token_id", "129280", "bos_token_id: found 129280"},
        BrokenRule{"/eos_token_id", "-1", "eos_token_id: found -1"},
        BrokenRule{"/eos_token_id", "[1]", "eos_token_id: found [1]"},
        BrokenRule{"/pad_token_id", "129280", "pad_token_id: found 129280"},
        BrokenRule{"/image_token_id", "129280", "image_token_id: found 129280"},
        BrokenRule{"/image_token_id", "-", "image_token_id: found no such key"},
        BrokenRule{"/text_config/engram_pad_token_id", "129280", "engram_pad_token_id: found"},
        BrokenRule{"/text_config/dspark_noise_token_id", "129280",
                   "dspark_noise_token_id: found"}));

// Rules that tie keys together.
INSTANTIATE_TEST_SUITE_P(
    Together, ConfigRule,
    ::testing::Values(
        BrokenRule{"/text_config/hidden_size", "5104", "hidden_size: found 5104, expected a multi"},
        BrokenRule{"/text_config/head_dim", "520",
                   "head_dim: found 520, expected a multiple of 32"},
        BrokenRule{"/text_config/q_lora_rank", "1281", "q_lora_rank: found 1281, expected a multi"},
        BrokenRule{"/text_config/o_lora_rank", "1000", "o_lora_rank: found 1000, expected a multi"},
        BrokenRule{"/text_config/moe_intermediate_size", "2320",
                   "moe_intermediate_size: found 2320"},
        BrokenRule{"/text_config/index_head_dim", "120",
                   "index_head_dim: found 120, expected a mul"},
        BrokenRule{"/text_config/engram_head_dim", "250", "engram_head_dim: found 250, expected a"},
        BrokenRule{"/text_config/o_groups", "7", "a divisor of num_attention_heads = 64"},
        BrokenRule{"/text_config/qk_rope_head_dim", "63", "an even number"},
        BrokenRule{"/text_config/qk_rope_head_dim", "514", "at most head_dim = 512"},
        BrokenRule{"/text_config/qk_rope_head_dim", "130", "at most index_head_dim = 128"},
        BrokenRule{"/text_config/compress_ratios/42", "-", "found 42 entries, expected 43"},
        BrokenRule{"/text_config/compress_ratios/5", "3", "compress_ratios[5]: found 3"},
        BrokenRule{"/text_config/compress_ratios/41", "1",
                   "compress_ratios[41]: found 1, expected 0"},
        BrokenRule{"/text_config/num_hidden_layers", "41", "expected 44, num_hidden_layers +"},
        BrokenRule{"/text_config/kv_source_layer_ids", "[2,8,8,14,20]",
                   "a strictly increasing list"},
        BrokenRule{"/text_config/kv_source_layer_ids", "[2,8,14,20,40]",
                   "kv_source_layer_ids[4]: found 40"},
        BrokenRule{"/text_config/kv_source_layer_ids", "[-1]", "kv_source_layer_ids[0]: found -1"},
        BrokenRule{"/text_config/index_source_layer_ids", "[20,2]", "a strictly increasing list"},
        BrokenRule{"/text_config/index_k_source_layer_ids", "[8,2]", "a strictly increasing list"},
        BrokenRule{"/text_config/engram_layer_ids", "[14,1]", "a strictly increasing list"},
        BrokenRule{"/text_config/dspark_target_layer_ids", "[37,37,38]", "a strictly increasing"},
        BrokenRule{"/text_config/engram_layer_ids", "[1,40]", "engram_layer_ids[1]: found 40"},
        BrokenRule{"/text_config/dspark_target_layer_ids", "[40]", "dspark_target_layer_ids[0]"},
        BrokenRule{"/text_config/dspark_target_layer_ids", "[]", "at least one layer"},
        BrokenRule{"/text_config/kv_source_layer_ids", "[2,8,14]",
                   "the first layer of ratio 1 (20) among them"},
        BrokenRule{"/text_config/kv_source_layer_ids", "[1,2,8,14,20]", "layer 1 of ratio 0"},
        BrokenRule{"/text_config/kv_source_layer_ids", "[3,8,14,20]",
                   "a source at or before layer 2, the first of ratio > 0"},
        BrokenRule{"/text_config/index_source_layer_ids", "[2,8,14,24,28]",
                   "index_source_layer_ids: found [2, 8, 14, 24, 28], expected a source of ratio 1 "
                   "for layer 20; its source, layer 14, has ratio 2"},
        BrokenRule{"/text_config/index_source_layer_ids", "[8,14,20]", "a source at or before"},
        BrokenRule{"/text_config/compress_ratios/10", "1", "the first layer of ratio 1 (10)"},
        BrokenRule{"/text_config/compress_ratios/30", "2", "a source of ratio 2 for layer 30"},
        BrokenRule{"/text_config/index_source_layer_ids", "[2,14,20,24]",
                   "layer 8 of index_k_source_layer_ids among them"},
        BrokenRule{"/text_config/index_k_source_layer_ids", "[2,14,20]",
                   "layer 8 of kv_source_layer_ids among them"},
        BrokenRule{"/text_config/index_k_source_layer_ids", "[2,8,14,20,22]",
                   "layer 22 of index_k_source_layer_ids among them"},
        BrokenRule{"/text_config/candidate_source_layer_id", "21", "one of index_source_layer_ids"},
        BrokenRule{"/text_config/candidate_source_layer_id", "40",
                   "candidate_source_layer_id: fou"},
        BrokenRule{"/text_config/candidate_source_layer_id", "14",
                   "the ratio of every later index source; layer 20 has 1, not 2"},
        BrokenRule{"/text_config/candidate_topk_blocks", "2044", "a multiple of 8"},
        BrokenRule{"/text_config/candidate_topk_blocks", "56", ">= index_topk = 512"},
        BrokenRule{"/text_config/num_experts_per_tok", "385", "at most n_routed_experts = 384"},
        BrokenRule{"/text_config/dspark_num_experts_per_tok", "129",
                   "at most dspark_n_routed_experts = 128"},
        BrokenRule{"/text_config/engram_num_embeddings", "[384006168]", "2 entries, one per"},
        BrokenRule{"/text_config/engram_num_embeddings", "[384006168,384016683]",
                   "engram_num_embeddings[1]: found 384016683, expected 384016682, the sum of the "
                   "bucket primes of layer 14"},
        BrokenRule{"/text_config/engram_vocab_size", "15000000", "the sum of the bucket primes"},
        BrokenRule{"/vision_config/num_attention_heads", "15", "a divisor of hidden_size = 1024"},
        BrokenRule{"/vision_config/num_attention_heads", "512", "to be a multiple of 4"}));

TEST(ModelConfig, AModelWithoutARatioOneLayerIsRefusedByName) {
  json document = json::parse(real_text());
  json& text = document["text_config"];
  for (int layer = 20; layer < 40; ++layer) text["compress_ratios"][layer] = 2;
  EXPECT_THAT(refusal(document.dump()), HasSubstr("a model without a ratio-1 layer"));
}

TEST(ModelConfig, AsManyExpertsAsFitInNoMemoryAreRefused) {
  EXPECT_THAT(refusal(patched("/text_config/n_routed_experts", "8192")), HasSubstr("accepted"));
  json document = json::parse(real_text());
  json& text = document["text_config"];
  text["n_routed_experts"] = 8192;
  text["num_hidden_layers"] = 1000;
  text["compress_ratios"] = std::vector<int>(1003, 1);
  for (int draft = 1000; draft < 1003; ++draft) text["compress_ratios"][draft] = 0;
  text["kv_source_layer_ids"] = text["index_source_layer_ids"] = {0};
  text["candidate_source_layer_id"] = 0;
  EXPECT_THAT(refusal(document.dump()), HasSubstr("experts in all layers"));
}

}  // namespace
}  // namespace deepinfer
