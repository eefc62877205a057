#include "checkpoint/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "checkpoint/testing/test_files.h"

namespace deepinfer {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;
using testing::write_file;
namespace fs = std::filesystem;

const PartSummary& part(const InspectReport& report, Part part) {
  return report.parts[static_cast<std::size_t>(part)];
}

/// A directory with the real model's 48 shards: true headers, data that is one large hole in a
/// sparse file.
class RealDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path source = fs::path(DEEPINFER_CHECKPOINT_TESTDATA_DIR) / "real_config.json";
    write_file(directory_.path() / "config.json", testing::read_file(source));
    const auto catalogue = weight_catalogue(load_config(source));
    constexpr std::size_t kShards = 48;
    std::string weight_map;
    for (std::size_t shard = 0; shard < kShards; ++shard) {
      std::string header = "{";
      std::uint64_t offset = 0;
      // An even number per shard keeps each weight and its scale together often enough; the Engram
      // tables, which must not be parted, are checked below.
      const std::size_t begin = catalogue.size() * shard / kShards / 2 * 2;
      const std::size_t end = shard + 1 == kShards
                                  ? catalogue.size()
                                  : catalogue.size() * (shard + 1) / kShards / 2 * 2;
      for (std::size_t i = begin; i < end; ++i) {
        const TensorSpec& spec = catalogue[i];
        std::vector<std::int64_t> shape;
        for (int axis = 0; axis < spec.shape.rank(); ++axis) shape.push_back(spec.shape[axis]);
        const auto next = offset + static_cast<std::uint64_t>(spec.bytes());
        if (header.size() > 1) header += ",";
        header += testing::header_entry(spec.name, std::string(to_string(spec.dtype)), shape,
                                        offset, next);
        weight_map +=
            (weight_map.empty() ? "\"" : ",\"") + spec.name + "\":\"" + file(shard) + "\"";
        offset = next;
      }
      const std::string bytes = testing::safetensors_with_header(header + "}", "");
      write_file(directory_.path() / file(shard), bytes);
      fs::resize_file(directory_.path() / file(shard), bytes.size() + offset);
    }
    write_file(directory_.path() / "model.safetensors.index.json",
               R"({"metadata":{"total_size":510286023000},"weight_map":{)" + weight_map + "}}");
  }

  static std::string file(std::size_t shard) {
    return "model-" + std::to_string(shard + 1) + "-of-48.safetensors";
  }

  TemporaryDirectory directory_;
};

TEST(Inspect, SumsUpTheGoldenCheckpoint) {
  const fs::path directory = fs::path(DEEPINFER_GOLDEN_DIR) / "tiny-random";
  const InspectReport report = inspect_checkpoint(directory);
  EXPECT_TRUE(report.complete());
  EXPECT_EQ(report.total.tensors, 965);
  EXPECT_EQ(report.total.bytes, 5862932);
  EXPECT_EQ(report.expected_bytes, 5862932);
  EXPECT_EQ(part(report, Part::kEmbedding).parameters, 512 * 128);
  EXPECT_EQ(part(report, Part::kRoutedExpert).parameters, 10 * 8 * 3 * 128 * 64);
  EXPECT_EQ(part(report, Part::kRoutedExpert).bytes, 10 * 8 * 3 * (128 * 64 / 2 + 128 * 64 / 32));
  EXPECT_EQ(part(report, Part::kEngramTable).parameters, (1362 + 1552) * 64);
  EXPECT_THAT(inspect_text(report), HasSubstr("complete"));
}

TEST(Inspect, JsonHasTheFrozenSchema) {
  const InspectReport report = inspect_checkpoint(fs::path(DEEPINFER_GOLDEN_DIR) / "tiny-random");
  const json document = json::parse(inspect_json(report));
  EXPECT_EQ(document["schema_version"], 1);
  EXPECT_EQ(document["complete"], true);
  EXPECT_EQ(document["layers"],
            json({{"total", 10}, {"ratio_0", 2}, {"ratio_2", 3}, {"ratio_1", 5}, {"draft", 2}}));
  EXPECT_EQ(document["total"]["tensors"], 965);
  EXPECT_EQ(document["parts"]["routed_experts"]["tensors"], 480);
  EXPECT_EQ(document["problems"]["missing_tensors"],
            json({{"count", 0}, {"first", json::array()}}));
  std::vector<std::string> keys;
  for (const auto& [key, value] : document.items()) keys.push_back(key);
  EXPECT_THAT(keys, ::testing::UnorderedElementsAre(
                        "schema_version", "directory", "model_type", "complete", "layers",
                        "max_position_embeddings", "vocab_size", "shards", "parts", "total",
                        "expected", "ignored_tensors", "unknown_config_keys", "problems"));
}

TEST(Inspect, ListsEveryKindOfProblemInsteadOfThrowing) {
  const TemporaryDirectory directory;
  const fs::path golden = fs::path(DEEPINFER_GOLDEN_DIR) / "tiny-random";
  write_file(directory.path() / "config.json", testing::read_file(golden / "config.json"));
  write_file(directory.path() / "model.safetensors.index.json",
             R"({"weight_map":{"norm.weight":"a.safetensors","extra":"a.safetensors",
                "ghost":"a.safetensors","x":"none.safetensors","y":"bad.safetensors"}})");
  write_file(directory.path() / "a.safetensors",
             testing::safetensors_bytes(
                 {{"norm.weight", "F32", {1}, "abcd"}, {"extra", "F16", {1}, "ab"}}));
  write_file(directory.path() / "bad.safetensors", "junk");
  const InspectReport report = inspect_checkpoint(directory.path());
  EXPECT_FALSE(report.complete());
  const json problems = json::parse(inspect_json(report))["problems"];
  EXPECT_EQ(problems["missing_shards"]["count"], 1);
  EXPECT_EQ(problems["damaged_shards"]["count"], 1);
  EXPECT_EQ(problems["index_errors"]["count"], 1);
  EXPECT_EQ(problems["missing_tensors"]["count"], 964);
  EXPECT_EQ(problems["missing_tensors"]["first"].size(), 100U);
  EXPECT_EQ(problems["unexpected_tensors"]["count"], 1);
  EXPECT_EQ(problems["mis_shaped_tensors"]["count"], 1);
  const std::string text = inspect_text(report);
  EXPECT_THAT(text, HasSubstr("964 missing tensors"));
  EXPECT_THAT(text, HasSubstr("and 864 more"));
  EXPECT_THAT(text, HasSubstr("norm.weight: found F32 [1], expected BF16 [128]"));
}

TEST_F(RealDirectory, IsSummedUpFromItsHeadersInAMoment) {
  const auto start = std::chrono::steady_clock::now();
  const InspectReport report = inspect_checkpoint(directory_.path());
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  EXPECT_TRUE(report.complete()) << inspect_text(report);
  EXPECT_EQ(report.total.tensors, 96085);
  EXPECT_EQ(report.layout.shards.size(), 48U);
  EXPECT_EQ(report.layout.declared_bytes, 510286023000);
  EXPECT_NEAR(static_cast<double>(part(report, Part::kRoutedExpert).parameters), 543.6e9, 5e7);
  // 0.6 s on one core of a small machine; reading the data would take minutes. Generous, because
  // sanitizers and busy machines slow it down.
  EXPECT_LT(elapsed.count(), 30.0);
  RecordProperty("milliseconds", static_cast<int>(elapsed.count() * 1000));
}

TEST_F(RealDirectory, OpensAsACheckpointWithoutReadingWeights) {
  const Checkpoint checkpoint = Checkpoint::open(directory_.path(), {ScaleCheck::kNone});
  EXPECT_EQ(checkpoint.names().size(), 96085U);
  const TensorView row = checkpoint.rows("layers.14.engram.embed.weight", 384016681, 384016682);
  EXPECT_EQ(std::to_integer<int>(row.data[255]), 0);
}

}  // namespace
}  // namespace deepinfer
