#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "checkpoint/testing/test_files.h"

namespace deepinfer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::header_entry;
using testing::safetensors_bytes;
using testing::safetensors_with_header;
using testing::TemporaryDirectory;
using testing::write_file;

SafetensorsHeader parse(const std::string& bytes) {
  return parse_safetensors_header(std::as_bytes(std::span(bytes)), bytes.size(),
                                  "file.safetensors");
}

/// The message of the Error(kCheckpoint) that parsing must end in.
std::string refusal(const std::string& bytes) {
  try {
    parse(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    EXPECT_THAT(error.what(), HasSubstr("file.safetensors"));
    return error.what();
  }
  ADD_FAILURE() << "the file was accepted";
  return "";
}

std::string one_tensor(const std::string& entry, std::size_t data_bytes) {
  return safetensors_with_header("{" + entry + "}", std::string(data_bytes, 'x'));
}

TEST(Safetensors, ReadsEntriesInDataOrderWithMetadata) {
  const auto header = parse(safetensors_with_header(
      "{\"__metadata__\":{\"format\":\"pt\"}," + header_entry("late", "BF16", {2, 3}, 4, 16) + "," +
          header_entry("early", "F32", {}, 0, 4) + "," +
          header_entry("empty", "I64", {0, 7}, 4, 4) + "}  ",
      std::string(16, '\0')));
  ASSERT_EQ(header.entries.size(), 3U);
  EXPECT_EQ(header.entries[0].name, "early");
  EXPECT_EQ(header.entries[1].name, "empty");
  EXPECT_EQ(header.entries[2].name, "late");
  EXPECT_EQ(header.entries[2].dtype, DType::kBF16);
  EXPECT_THAT(header.entries[2].shape, ElementsAre(2, 3));
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_EQ(header.data_bytes, 16U);
}

TEST(Safetensors, ViewsHoldTheStoredBytes) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "a.safetensors";
  write_file(path, safetensors_bytes({{"x", "U8", {2, 2}, "abcd"}, {"y", "I8", {3}, "efg"}}));
  const SafetensorsFile file(path);
  EXPECT_THAT(file.names(), ElementsAre("x", "y"));
  const TensorView y = file.tensor("y");
  EXPECT_EQ(y.dtype, DType::kI8);
  EXPECT_EQ(y.shape, (Shape{3}));
  EXPECT_EQ(std::memcmp(y.data, "efg", 3), 0);
  EXPECT_FALSE(file.has("z"));
  EXPECT_THROW(file.tensor("z"), Error);
}

TEST(Safetensors, HeaderAloneEqualsTheMappedFilesHeader) {
  const std::filesystem::path path =
      std::filesystem::path(DEEPINFER_GOLDEN_DIR) / "tiny-random" / "model.safetensors";
  const auto header = read_safetensors_header(path);
  const SafetensorsFile file(path);
  ASSERT_EQ(header.entries.size(), 965U);
  ASSERT_EQ(header.entries.size(), file.header().entries.size());
  EXPECT_EQ(header.data_bytes, 5862932U);
  EXPECT_EQ(header.data_start, file.header().data_start);
  EXPECT_EQ(header.entries.back().name, file.header().entries.back().name);
}

TEST(Safetensors, RefusesAFileThatEndsTooEarlyAnywhere) {
  const std::string whole =
      safetensors_bytes({{"x", "F32", {2}, std::string(8, 'a')}, {"y", "U8", {3}, "efg"}});
  parse(whole);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(refusal(whole.substr(0, size)), HasSubstr("truncated")) << size;
  }
}

TEST(Safetensors, RefusesBytesAfterTheLastTensor) {
  const std::string whole = safetensors_bytes({{"y", "U8", {3}, "efg"}});
  EXPECT_THAT(refusal(whole + "z"), HasSubstr("1 bytes after the last tensor"));
}

TEST(Safetensors, RefusesHeaderLengthsOutsideTheBound) {
  EXPECT_THAT(refusal(std::string(8, '\0') + "{}"), HasSubstr("header length of 0"));
  EXPECT_THAT(refusal(std::string(8, '\xff') + "{}"), HasSubstr("expected 1 to 100000000"));
  EXPECT_THAT(refusal(std::string("\xff\0\0\0\0\0\0\0{}", 10)), HasSubstr("truncated"));
}

TEST(Safetensors, RefusesHeadersOfTheWrongForm) {
  const auto with_header = [](const std::string& header) {
    return refusal(safetensors_with_header(header, ""));
  };
  EXPECT_THAT(with_header("{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(with_header("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(with_header("{}{}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(with_header("{\"\xff\":1}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(with_header("{\"x\":1}"), HasSubstr("tensor \"x\": found 1, expected an object"));
  EXPECT_THAT(with_header("{\"__metadata__\":{\"a\":1}}"), HasSubstr("__metadata__.a"));
  EXPECT_THAT(with_header(std::string(1000, '[')), HasSubstr("nested deeper"));
  std::string deep = std::string(100, '[') + std::string(100, ']');
  EXPECT_THAT(with_header("{\"x\":" + deep + "}"), HasSubstr("nested deeper"));
}

TEST(Safetensors, RefusesEntriesOfTheWrongForm) {
  const auto with_entry = [](const std::string& entry) { return refusal(one_tensor(entry, 4)); };
  EXPECT_THAT(with_entry(R"("x":{"dtype":"F32","shape":[1]})"), HasSubstr("has no data_offsets"));
  EXPECT_THAT(with_entry(R"("x":{"dtype":"F32","data_offsets":[0,4]})"), HasSubstr("has no shape"));
  EXPECT_THAT(with_entry(R"("x":{"shape":[1],"data_offsets":[0,4]})"), HasSubstr("has no dtype"));
  EXPECT_THAT(with_entry(R"("x":{"dtype":"F33","shape":[1],"data_offsets":[0,4]})"),
              HasSubstr("\"F33\", a tag the format lacks"));
  EXPECT_THAT(with_entry(R"("x":{"dtype":7,"shape":[1],"data_offsets":[0,4]})"),
              HasSubstr("dtype: found 7"));
  EXPECT_THAT(with_entry(R"("x":{"dtype":"F32","shape":1,"data_offsets":[0,4]})"),
              HasSubstr("shape: found 1"));
  EXPECT_THAT(with_entry(R"("x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"),
              HasSubstr("shape: found -1"));
  EXPECT_THAT(with_entry(R"("x":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]})"),
              HasSubstr("shape: found 1.0"));
  EXPECT_THAT(with_entry(R"("x":{"dtype":"F32","shape":[1],"data_offsets":[0]})"),
              HasSubstr("expected [begin, end]"));
  EXPECT_THAT(with_entry(R"("x":{"dtype":"F32","shape":[1],"data_offsets":[4,0]})"),
              HasSubstr("begin > end"));
  EXPECT_THAT(with_entry(R"("x":{"dtype":"F32","shape":[1],"data_offsets":[0,1e3]})"),
              HasSubstr("data_offsets: found 1000.0"));
  EXPECT_THAT(
      with_entry(R"("x":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]})"),
      HasSubstr("[0, 2^63)"));
  EXPECT_THAT(with_entry(R"("x":{"dtype":"F4","shape":[1],"data_offsets":[0,0]})"),
              HasSubstr("inside a byte"));
}

TEST(Safetensors, RefusesSizesThatDisagreeWithShapeAndType) {
  EXPECT_THAT(refusal(one_tensor(header_entry("x", "F32", {2}, 0, 4), 4)),
              HasSubstr("cover 4 bytes, but shape and dtype F32 need 8"));
  EXPECT_THAT(refusal(one_tensor(header_entry("x", "BF16", {1}, 0, 4), 4)), HasSubstr("need 2"));
  // 2^32 * 2^32 wraps to zero, which would fit [0, 0].
  EXPECT_THAT(
      refusal(one_tensor(
          header_entry("x", "U8", {std::int64_t{1} << 32, std::int64_t{1} << 32}, 0, 0), 0)),
      HasSubstr("overflows"));
}

TEST(Safetensors, RefusesOverlapsHolesAndOffsetsOutsideTheFile) {
  const auto two = [](const std::string& second, std::size_t bytes) {
    return refusal(safetensors_with_header(
        "{" + header_entry("x", "U8", {4}, 0, 4) + "," + second + "}", std::string(bytes, 'x')));
  };
  EXPECT_THAT(two(header_entry("y", "U8", {4}, 2, 6), 6), HasSubstr("overlap"));
  EXPECT_THAT(two(header_entry("y", "U8", {4}, 0, 4), 4), HasSubstr("overlap"));
  EXPECT_THAT(two(header_entry("y", "U8", {4}, 5, 9), 9), HasSubstr("hole"));
  EXPECT_THAT(two(header_entry("y", "U8", {4}, 4, 8), 7), HasSubstr("holds only 7"));
}

TEST(Safetensors, RefusesANameThatStandsTwice) {
  const std::string twice =
      "{" + header_entry("x", "U8", {1}, 0, 1) + "," + header_entry("x", "U8", {1}, 0, 1) + "}";
  EXPECT_THAT(refusal(safetensors_with_header(twice, "a")), HasSubstr("\"x\" stands twice"));
}

TEST(Safetensors, ViewsRefuseTypesAndRanksThatTensorsCantHave) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "a.safetensors";
  write_file(path,
             safetensors_bytes({{"half", "F16", {1}, "ab"}, {"deep", "U8", {1, 1, 1, 1, 1}, "c"}}));
  const SafetensorsFile file(path);
  EXPECT_THROW(file.tensor("half"), Error);
  EXPECT_THROW(file.tensor("deep"), Error);
}

TEST(Safetensors, MissingFilesAndDirectoriesAreCheckpointErrors) {
  const TemporaryDirectory directory;
  for (const auto& path : {directory.path(), directory.path() / "none"}) {
    try {
      read_safetensors_header(path);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    }
    try {
      const SafetensorsFile file(path);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
    }
  }
}

}  // namespace
}  // namespace deepinfer
