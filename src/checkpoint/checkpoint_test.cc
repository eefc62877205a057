#include "checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "base/dtype.h"
#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/testing/test_files.h"

namespace deepinfer {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::StoredTensor;
using testing::TemporaryDirectory;
using testing::write_file;

std::filesystem::path golden() {
  return std::filesystem::path(DEEPINFER_GOLDEN_DIR) / "tiny-random";
}

/// All tensors of the golden checkpoint, in file order.
std::vector<StoredTensor> golden_tensors() {
  const SafetensorsFile file(golden() / "model.safetensors");
  std::vector<StoredTensor> tensors;
  for (const SafetensorsEntry& entry : file.header().entries) {
    const TensorView view = file.tensor(entry.name);
    tensors.push_back({entry.name, entry.dtype_tag, entry.shape,
                       std::string(reinterpret_cast<const char*>(view.data), view.bytes())});
  }
  return tensors;
}

StoredTensor& named(std::vector<StoredTensor>& tensors, const std::string& name) {
  for (StoredTensor& tensor : tensors) {
    if (tensor.name == name) return tensor;
  }
  throw std::runtime_error("no tensor " + name);
}

void remove(std::vector<StoredTensor>& tensors, const std::string& name) {
  std::erase_if(tensors, [&](const StoredTensor& tensor) { return tensor.name == name; });
}

/// A copy of the golden checkpoint that tests may break.
class BrokenCheckpoint : public ::testing::Test {
 protected:
  const std::filesystem::path& path() const { return directory_.path(); }

  void write_config() {
    write_file(path() / "config.json", testing::read_file(golden() / "config.json"));
  }

  /// One file without an index.
  void write_single(const std::vector<StoredTensor>& tensors) {
    write_config();
    write_file(path() / "model.safetensors", testing::safetensors_bytes(tensors));
  }

  /// Shards by a rule from tensor name to file, and their index.
  void write_shards(const std::vector<StoredTensor>& tensors,
                    const std::function<std::string(const std::string&)>& file_of) {
    write_config();
    std::map<std::string, std::vector<StoredTensor>> files;
    for (const StoredTensor& tensor : tensors) {
      files[file_of(tensor.name)].push_back(tensor);
      index_["weight_map"][tensor.name] = file_of(tensor.name);
    }
    for (const auto& [name, content] : files) {
      write_file(path() / name, testing::safetensors_bytes(content));
    }
    write_index();
  }
  void write_index() { write_file(path() / "model.safetensors.index.json", index_.dump()); }

  static std::string two_shards(const std::string& name) {
    return name.starts_with("layers.") ? "model-00002.safetensors" : "model-00001.safetensors";
  }

  std::string refusal(const OpenOptions& options = {}) const {
    try {
      Checkpoint::open(path(), options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
      EXPECT_THAT(error.what(), HasSubstr(path().string()));
      return error.what();
    }
    return "accepted";
  }

  TemporaryDirectory directory_;
  json index_;
};

TEST(Checkpoint, OpensTheGoldenCheckpoint) {
  const Checkpoint checkpoint = Checkpoint::open(golden());
  EXPECT_EQ(checkpoint.config().num_hidden_layers, 10);
  EXPECT_EQ(checkpoint.names().size(), 965U);
  EXPECT_EQ(checkpoint.names().front(), "embed.weight");
  EXPECT_EQ(checkpoint.total_bytes(), 5862932);
  EXPECT_EQ(checkpoint.tokenizer_directory(), golden());
  EXPECT_TRUE(checkpoint.has("layers.2.attn.compressor.wgate.weight"));
  EXPECT_FALSE(checkpoint.has("layers.5.attn.compressor.wgate.weight"));
  const SafetensorsFile file(golden() / "model.safetensors");
  for (const std::string& name : checkpoint.names()) {
    const TensorView mine = checkpoint.tensor(name);
    const TensorView stored = file.tensor(name);
    ASSERT_EQ(mine.dtype, stored.dtype);
    ASSERT_EQ(mine.shape, stored.shape);
    ASSERT_EQ(std::memcmp(mine.data, stored.data, stored.bytes()), 0) << name;
  }
  EXPECT_THROW(checkpoint.tensor("model.embed.weight"), Error);
}

TEST(Checkpoint, ViewsStayValidWhenTheObjectMoves) {
  Checkpoint first = Checkpoint::open(golden());
  const std::byte* data = first.tensor("norm.weight").data;
  const Checkpoint second = std::move(first);
  EXPECT_EQ(second.tensor("norm.weight").data, data);
}

TEST(Checkpoint, RowsAreASliceOfTheFirstAxis) {
  const Checkpoint checkpoint = Checkpoint::open(golden());
  const TensorView whole = checkpoint.tensor("layers.1.engram.embed.weight");
  const TensorView slice = checkpoint.rows("layers.1.engram.embed.weight", 1000, 1007);
  EXPECT_EQ(slice.shape, (Shape{7, 64}));
  EXPECT_EQ(slice.data, whole.data + 1000 * 64);
  const TensorView wide = checkpoint.rows("embed.weight", 3, 4);
  EXPECT_EQ(wide.data, checkpoint.tensor("embed.weight").data + 3 * 128 * 2);
  EXPECT_EQ(checkpoint.rows("norm.weight", 128, 128).bytes(), 0U);
  EXPECT_THROW(checkpoint.rows("norm.weight", 0, 129), Error);
  EXPECT_THROW(checkpoint.rows("norm.weight", -1, 1), Error);
  EXPECT_THROW(checkpoint.rows("norm.weight", 2, 1), Error);
}

TEST(Checkpoint, StoredWeightsDecodeToFiniteValuesOfSensibleSize) {
  // FP8 with a wrong scale index would still be finite, so the golden logits are the real proof;
  // this catches a wrong byte order, tag or pairing of weight and scale at the lowest level.
  const Checkpoint checkpoint = Checkpoint::open(golden());
  const TensorView weight = checkpoint.tensor("layers.0.attn.wq_a.weight");
  const TensorView scale = checkpoint.tensor("layers.0.attn.wq_a.scale");
  ASSERT_EQ(scale.shape, (Shape{2, 4}));
  for (std::int64_t tile_row = 0; tile_row < 2; ++tile_row) {
    for (std::int64_t tile_column = 0; tile_column < 4; ++tile_column) {
      float largest = 0.0F;
      const float factor =
          e8m0_to_float(std::to_integer<std::uint8_t>(scale.data[tile_row * 4 + tile_column]));
      for (std::int64_t row = 0; row < 32; ++row) {
        for (std::int64_t column = 0; column < 32; ++column) {
          const auto code = std::to_integer<std::uint8_t>(
              weight.data[(tile_row * 32 + row) * 128 + tile_column * 32 + column]);
          largest = std::fmax(largest, std::fabs(e4m3_to_float(code)));
        }
      }
      // A tile's scale is the smallest power of two that fits its largest value into 448.
      EXPECT_GT(largest, 224.0F - 16.0F);
      EXPECT_TRUE(std::isfinite(largest * factor));
    }
  }
}

TEST_F(BrokenCheckpoint, SingleFileShardsAndPrefixedNamesAreTheSameCheckpoint) {
  auto tensors = golden_tensors();
  write_single(tensors);
  EXPECT_EQ(refusal(), "accepted");
  std::filesystem::remove(path() / "model.safetensors");
  write_shards(tensors, two_shards);
  EXPECT_EQ(refusal(), "accepted");
  for (StoredTensor& tensor : tensors) tensor.name = "model." + tensor.name;
  index_.clear();
  write_shards(tensors, [](const std::string& name) { return two_shards(name.substr(6)); });
  const Checkpoint checkpoint = Checkpoint::open(path());
  EXPECT_TRUE(checkpoint.has("embed.weight"));
}

TEST_F(BrokenCheckpoint, BytesPassForTypesThatOldToolsLack) {
  auto tensors = golden_tensors();
  for (StoredTensor& tensor : tensors) {
    if (tensor.dtype == "I8" || tensor.dtype == "F8_E8M0") tensor.dtype = "U8";
  }
  write_single(tensors);
  const Checkpoint checkpoint = Checkpoint::open(path());
  EXPECT_EQ(checkpoint.tensor("layers.0.attn.wq_a.scale").dtype, DType::kF8E8M0);
  EXPECT_EQ(checkpoint.tensor("layers.0.ffn.experts.0.w1.weight").dtype, DType::kI8);
}

TEST_F(BrokenCheckpoint, CopiesOfTheBackboneUnderTheDraftAreIgnored) {
  auto tensors = golden_tensors();
  tensors.push_back({"mtp.0.embed.weight", "BF16", {1}, "ab"});
  tensors.push_back({"mtp.1.head.weight", "BF16", {1}, "ab"});
  write_single(tensors);
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(BrokenCheckpoint, NamesThatDirectoryLacks) {
  EXPECT_THAT(refusal(), HasSubstr("config.json: no such file"));
  write_config();
  EXPECT_THAT(refusal(), HasSubstr("found neither model.safetensors.index.json nor"));
  EXPECT_THROW(Checkpoint::open(path() / "none"), Error);
}

TEST_F(BrokenCheckpoint, NamesMissingTensors) {
  auto tensors = golden_tensors();
  remove(tensors, "norm.weight");
  remove(tensors, "layers.3.ffn.experts.5.w2.scale");
  write_single(tensors);
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("2 missing tensors"), HasSubstr("norm.weight (BF16 [128])"),
                    HasSubstr("layers.3.ffn.experts.5.w2.scale (F8_E8M0 [128, 2])")));
}

TEST_F(BrokenCheckpoint, NamesTheFirstOfManyMissingTensorsAndTheirCount) {
  auto tensors = golden_tensors();
  std::erase_if(tensors, [](const StoredTensor& t) { return t.name.starts_with("layers.4."); });
  write_single(tensors);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("layers.4.hc_attn_fn"), HasSubstr(" more"),
                               Not(HasSubstr("experts.7"))));
}

TEST_F(BrokenCheckpoint, NamesUnexpectedTensors) {
  auto tensors = golden_tensors();
  tensors.push_back({"layers.3.attn.compressor.ape", "F32", {1}, "abcd"});
  write_single(tensors);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("1 unexpected tensors"),
                               HasSubstr("tensor layers.3.attn.compressor.ape")));
}

TEST_F(BrokenCheckpoint, RefusesTheOldLayoutOfHyperConnectionNorms) {
  for (const char* name : {"layers.0.hc_attn_norm.weight", "layers.2.hc_ffn_norm.weight",
                           "hc_head_norm.weight", "model.hc_head_norm.weight"}) {
    auto tensors = golden_tensors();
    tensors.push_back({name, "BF16", {1}, "ab"});
    write_single(tensors);
    EXPECT_THAT(refusal(), AllOf(HasSubstr(name), HasSubstr("folded into hc_*_fn")));
  }
}

TEST_F(BrokenCheckpoint, NamesWrongShapesAndTypes) {
  auto tensors = golden_tensors();
  named(tensors, "norm.weight").shape = {2, 64};
  StoredTensor& sink = named(tensors, "layers.0.attn.attn_sink");
  sink.dtype = "BF16";
  sink.shape = {8};
  StoredTensor& half = named(tensors, "head.weight");
  half.dtype = "F16";
  StoredTensor& bytes = named(tensors, "layers.0.attn.wkv.weight");
  bytes.dtype = "U8";
  write_single(tensors);
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("4 mis-shaped tensors"),
                    HasSubstr("norm.weight: found BF16 [2, 64], expected BF16 [128]"),
                    HasSubstr("attn_sink: found BF16 [8], expected F32 [4]"),
                    HasSubstr("head.weight: found F16 [512, 128], expected BF16 [512, 128]"),
                    HasSubstr("wkv.weight: found U8 [128, 128], expected F8_E4M3 [128, 128]")));
}

TEST_F(BrokenCheckpoint, NamesADamagedShard) {
  write_single(golden_tensors());
  std::filesystem::resize_file(path() / "model.safetensors", 5000000);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("1 damaged shards"), HasSubstr("truncated")));
}

TEST_F(BrokenCheckpoint, ListsMissingShardsAndDanglingLinks) {
  write_shards(golden_tensors(), two_shards);
  std::filesystem::remove(path() / "model-00001.safetensors");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("1 missing shards"),
                               HasSubstr("model-00001.safetensors: is missing")));
  std::filesystem::remove(path() / "model-00002.safetensors");
  std::filesystem::create_symlink("../../blobs/none", path() / "model-00002.safetensors");
  EXPECT_THAT(refusal(), HasSubstr("2 missing shards"));
}

TEST_F(BrokenCheckpoint, RefusesAnIndexThatContradictsItsShards) {
  write_shards(golden_tensors(), two_shards);
  const json good = index_;
  const auto with = [this, &good](const std::function<void(json&)>& change) {
    index_ = good;
    change(index_["weight_map"]);
    write_index();
    return refusal();
  };
  EXPECT_EQ(with([](json&) {}), "accepted");
  EXPECT_THAT(with([](json& map) { map["norm.weight"] = "model-00002.safetensors"; }),
              HasSubstr("tensor norm.weight: the index says it is in"));
  EXPECT_THAT(with([](json& map) { map.erase("norm.weight"); }),
              HasSubstr("tensor norm.weight: isn't in the index"));
  EXPECT_THAT(with([](json& map) { map["nothing.weight"] = "model-00001.safetensors"; }),
              HasSubstr("tensor nothing.weight: isn't in"));
  EXPECT_THAT(with([](json& map) { map["model.norm.weight"] = "model-00001.safetensors"; }),
              HasSubstr("found both model.norm.weight and norm.weight"));
  EXPECT_THAT(with([](json& map) { map["norm.weight"] = "../model-00001.safetensors"; }),
              HasSubstr("expected the name of a file in the same directory"));
  EXPECT_THAT(with([](json& map) { map["norm.weight"] = 1; }), HasSubstr("expected a file name"));
  EXPECT_THAT(with([](json& map) { map = json::object(); }), HasSubstr("weight_map: found {}"));
  write_file(path() / "model.safetensors.index.json", "{\"weight_map\"");
  EXPECT_THAT(refusal(), HasSubstr("not valid JSON"));
  write_file(path() / "model.safetensors.index.json", "{}");
  EXPECT_THAT(refusal(), HasSubstr("weight_map: found no such key"));
}

TEST_F(BrokenCheckpoint, RefusesOneTensorInTwoForms) {
  auto tensors = golden_tensors();
  StoredTensor copy = named(tensors, "norm.weight");
  copy.name = "model.norm.weight";
  tensors.push_back(copy);
  write_single(tensors);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("model.norm.weight"), HasSubstr("is the same as")));
}

TEST_F(BrokenCheckpoint, RefusesAnEngramTableApartFromItsScales) {
  write_shards(golden_tensors(), [](const std::string& name) {
    return name == "layers.1.engram.embed.scale" ? "b.safetensors" : "a.safetensors";
  });
  EXPECT_THAT(refusal(), HasSubstr("expected in the same file as its weight"));
}

TEST_F(BrokenCheckpoint, RefusesNanScales) {
  auto tensors = golden_tensors();
  named(tensors, "layers.0.ffn.experts.2.w1.scale").data[4 * 7 + 3] = '\xff';
  write_single(tensors);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("layers.0.ffn.experts.2.w1.scale: found byte 255"),
                               HasSubstr("[7, 3]")));
  const Checkpoint checkpoint = Checkpoint::open(path(), {ScaleCheck::kNone});
  EXPECT_NO_THROW(checkpoint.check_scales("layers.0.ffn.experts.1.w1.scale"));
  EXPECT_THROW(checkpoint.check_scales("layers.0.ffn.experts.2.w1.scale"), Error);
  EXPECT_THROW(checkpoint.check_scales("norm.weight"), Error);
}

}  // namespace
}  // namespace deepinfer
