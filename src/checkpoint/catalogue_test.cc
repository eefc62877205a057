#include "checkpoint/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "checkpoint/safetensors.h"

namespace deepinfer {
namespace {

ModelConfig real_config() {
  return load_config(std::filesystem::path(DEEPINFER_CHECKPOINT_TESTDATA_DIR) / "real_config.json");
}

/// Tensors per first two parts of the name: `layers.3`, `mtp.0`, `vision`, ...
std::map<std::string, int> counts(const std::vector<TensorSpec>& catalogue) {
  std::map<std::string, int> result;
  for (const TensorSpec& spec : catalogue) {
    std::size_t end = spec.name.find('.');
    if (spec.name.starts_with("layers.") || spec.name.starts_with("mtp.")) {
      end = spec.name.find('.', end + 1);
    }
    ++result[spec.name.substr(0, end)];
  }
  return result;
}

std::map<Part, std::int64_t> parameters(const std::vector<TensorSpec>& catalogue) {
  std::map<Part, std::int64_t> result;
  for (const TensorSpec& spec : catalogue) result[spec.part] += spec.parameters();
  return result;
}

TEST(WeightCatalogue, RealModelHasThePublishedCounts) {
  const auto catalogue = weight_catalogue(real_config());
  EXPECT_EQ(catalogue.size(), 96085U);
  auto count = counts(catalogue);
  for (const int layer : {0, 3, 7, 9, 13, 15, 19, 21, 23, 25, 37, 39}) {
    EXPECT_EQ(count["layers." + std::to_string(layer)], 2334) << layer;
  }
  for (const int layer : {24, 28, 32, 36}) {
    EXPECT_EQ(count["layers." + std::to_string(layer)], 2337) << layer;
  }
  EXPECT_EQ(count["layers.1"], 2334 + 6);
  EXPECT_EQ(count["layers.2"], 2342);
  EXPECT_EQ(count["layers.8"], 2342);
  EXPECT_EQ(count["layers.14"], 2342 + 6);
  EXPECT_EQ(count["layers.20"], 2341);
  EXPECT_EQ(count["mtp.0"], 798 + 3);
  EXPECT_EQ(count["mtp.1"], 798);
  EXPECT_EQ(count["mtp.2"], 798 + 4);
  EXPECT_EQ(count["vision"], 259);
  EXPECT_EQ(count["aligner"], 4);
}

TEST(WeightCatalogue, RealModelHasThePublishedSize) {
  std::int64_t bytes = 0;
  const auto catalogue = weight_catalogue(real_config());
  for (const TensorSpec& spec : catalogue) bytes += spec.bytes();
  // Within the size of 48 headers of the published 510,286,023,000 bytes.
  EXPECT_LE(bytes, 510286023000);
  EXPECT_NEAR(static_cast<double>(bytes), 510286023000.0, 20e6);
  auto count = parameters(catalogue);
  EXPECT_NEAR(static_cast<double>(count[Part::kRoutedExpert]), 543.6e9, 0.05e9);
  EXPECT_NEAR(static_cast<double>(count[Part::kEngramTable]), 196.6e9, 0.05e9);
  EXPECT_NEAR(static_cast<double>(count[Part::kDraft]), 14.2e9, 0.05e9);
  EXPECT_NEAR(static_cast<double>(count[Part::kVision]), 0.41e9, 0.005e9);
  EXPECT_NEAR(static_cast<double>(count[Part::kAligner]), 0.07e9, 0.005e9);
}

TEST(WeightCatalogue, RealModelHasThePublishedShapes) {
  std::map<std::string, std::pair<DType, Shape>> specs;
  for (const TensorSpec& spec : weight_catalogue(real_config())) {
    EXPECT_TRUE(specs.emplace(spec.name, std::pair(spec.dtype, spec.shape)).second) << spec.name;
  }
  const auto expect = [&specs](const std::string& name, DType dtype, Shape shape) {
    ASSERT_TRUE(specs.contains(name)) << name;
    EXPECT_EQ(specs[name].first, dtype) << name;
    EXPECT_EQ(specs[name].second, shape) << name << " " << to_string(specs[name].second);
  };
  using enum DType;
  expect("layers.0.hc_attn_fn", kF32, {24, 20480});
  expect("layers.39.hc_ffn_base", kF32, {24});
  expect("layers.0.hc_ffn_scale", kF32, {3});
  expect("layers.0.attn.attn_sink", kF32, {64});
  expect("layers.0.attn.wq_a.weight", kF8E4M3, {1280, 5120});
  expect("layers.0.attn.wq_a.scale", kF8E8M0, {40, 160});
  expect("layers.0.attn.wq_b.weight", kF8E4M3, {32768, 1280});
  expect("layers.0.attn.wq_b.scale", kF8E8M0, {1024, 40});
  expect("layers.0.attn.wkv.scale", kF8E8M0, {16, 160});
  expect("layers.0.attn.wo_a.weight", kF8E4M3, {8192, 4096});
  expect("layers.0.attn.wo_a.scale", kF8E8M0, {256, 128});
  expect("layers.0.attn.wo_b.weight", kF8E4M3, {5120, 8192});
  expect("layers.0.attn.wo_b.scale", kF8E8M0, {160, 256});
  expect("layers.2.attn.compressor.wgate.weight", kBF16, {512, 5120});
  expect("layers.20.attn.compressor.wkv.weight", kBF16, {512, 5120});
  EXPECT_FALSE(specs.contains("layers.20.attn.compressor.wgate.weight"));
  expect("layers.24.attn.indexer.wq_b.weight", kF8E4M3, {4096, 1280});
  expect("layers.24.attn.indexer.wq_b.scale", kF8E8M0, {128, 40});
  expect("layers.24.attn.indexer.weights_proj.weight", kBF16, {32, 5120});
  EXPECT_FALSE(specs.contains("layers.24.attn.indexer.wk.weight"));
  expect("layers.8.attn.indexer.wk.weight", kBF16, {128, 512});
  expect("layers.8.attn.indexer.k_norm.weight", kBF16, {128});
  expect("layers.0.ffn.gate.bias_vl", kF32, {384});
  expect("layers.0.ffn.shared_experts.w2.scale", kF8E8M0, {160, 72});
  expect("layers.0.ffn.experts.383.w1.weight", kI8, {2304, 2560});
  expect("layers.0.ffn.experts.383.w1.scale", kF8E8M0, {2304, 160});
  expect("layers.0.ffn.experts.0.w2.weight", kI8, {5120, 1152});
  expect("layers.0.ffn.experts.0.w2.scale", kF8E8M0, {5120, 72});
  expect("layers.1.engram.embed.weight", kF8E4M3, {384006168, 256});
  expect("layers.14.engram.embed.scale", kF8E8M0, {384016682, 8});
  expect("layers.14.engram.wkv.weight", kF8E4M3, {25600, 6144});
  expect("layers.14.engram.wkv.scale", kF8E8M0, {800, 192});
  expect("layers.1.engram.q_weight", kBF16, {4, 5120});
  expect("mtp.0.main_proj.weight", kF8E4M3, {5120, 15360});
  expect("mtp.0.main_proj.scale", kF8E8M0, {160, 480});
  expect("mtp.2.markov_head.embed.weight", kBF16, {129280, 256});
  expect("mtp.2.confidence_head.proj.weight", kBF16, {1, 5376});
  expect("mtp.1.ffn.gate.weight", kBF16, {128, 5120});
  expect("vision.patch_embed.proj.weight", kBF16, {1024, 588});
  expect("vision.blocks.31.mlp.w1.weight", kBF16, {5632, 1024});
  expect("aligner.w1.weight", kBF16, {5120, 9216});
  expect("image_newline", kBF16, {5120});
}

TEST(WeightCatalogue, EqualsTheGoldenCheckpoint) {
  const auto directory = std::filesystem::path(DEEPINFER_GOLDEN_DIR) / "tiny-random";
  const auto catalogue = weight_catalogue(load_config(directory / "config.json"));
  const auto header = read_safetensors_header(directory / "model.safetensors");
  std::set<std::string> stored;
  for (const auto& entry : header.entries) {
    stored.insert(entry.name + " " + entry.dtype_tag + " " +
                  to_string(Shape(std::span<const std::int64_t>(entry.shape))));
  }
  std::set<std::string> expected;
  for (const TensorSpec& spec : catalogue) {
    expected.insert(spec.name + " " + std::string(to_string(spec.dtype)) + " " +
                    to_string(spec.shape));
  }
  EXPECT_EQ(stored, expected);
}

TEST(WeightCatalogue, LeavesOutWhatTheConfigurationLeavesOut) {
  ModelConfig config = real_config();
  config.vision.reset();
  config.num_nextn_predict_layers = 0;
  config.engram_layer_ids.clear();
  EXPECT_EQ(weight_catalogue(config).size(), 96085U - 259 - 4 - 3 - 12 - 3 * 798 - 7);
}

TEST(WeightCatalogue, OnlyDraftCopiesOfTheBackboneAreIgnored) {
  const ModelConfig config = real_config();
  EXPECT_TRUE(is_ignored_tensor(config, "mtp.0.embed.weight"));
  EXPECT_TRUE(is_ignored_tensor(config, "mtp.2.head.weight"));
  EXPECT_FALSE(is_ignored_tensor(config, "mtp.3.head.weight"));
  EXPECT_FALSE(is_ignored_tensor(config, "head.weight"));
}

}  // namespace
}  // namespace deepinfer
