#include "checkpoint/lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "checkpoint/testing/test_files.h"

namespace deepinfer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;
using testing::write_file;
namespace fs = std::filesystem;

/// A made-up machine: variables, a cache, places for the bundled checkpoint.
class Lookup : public ::testing::Test {
 protected:
  Lookup() {
    variables_["HF_HUB_CACHE"] = (root() / "hub").string();
    environment_.variable = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt : std::optional(found->second);
    };
    environment_.executable_directory = root() / "usr" / "bin";
    environment_.source_models_directory = root() / "source" / "models";
  }

  fs::path root() const { return directory_.path(); }

  fs::path add_model(const fs::path& directory) const {
    write_file(directory / "config.json", "{}");
    write_file(directory / "tokenizer.json", "{}");
    write_file(directory / "model.safetensors.index.json",
               R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
    write_file(directory / "one.safetensors", "");
    write_file(directory / "two.safetensors", "");
    return directory;
  }

  /// A repository as huggingface_hub caches it: snapshot files are links to blobs.
  fs::path add_cached(const std::string& folder, const std::string& revision = "main") const {
    const fs::path repository = root() / "hub" / folder;
    write_file(repository / "refs" / revision, "c0ffee\n");
    const fs::path snapshot = add_model(repository / "snapshots" / "c0ffee");
    fs::create_directories(repository / "blobs");
    fs::rename(snapshot / "two.safetensors", repository / "blobs" / "deadbeef");
    fs::create_symlink("../../blobs/deadbeef", snapshot / "two.safetensors");
    return snapshot;
  }

  ModelLocation located(const std::optional<std::string>& name) const {
    return std::get<ModelLocation>(find_model(name, environment_));
  }
  DownloadNeeded wanted(const std::string& name) const {
    return std::get<DownloadNeeded>(find_model(name, environment_));
  }
  std::string refusal(const std::optional<std::string>& name) const {
    try {
      find_model(name, environment_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCheckpoint);
      return error.what();
    }
    return "accepted";
  }

  TemporaryDirectory directory_;
  std::map<std::string, std::string> variables_;
  LookupEnvironment environment_;
};

TEST_F(Lookup, AnExistingDirectoryComesFirst) {
  const fs::path directory = root() / "anywhere";
  fs::create_directories(directory);
  const ModelLocation found = located(directory.string());
  EXPECT_EQ(found.directory, directory);
  EXPECT_EQ(found.source, ModelSource::kPath);
  EXPECT_THAT(found.sentence, HasSubstr(directory.string()));
}

TEST_F(Lookup, AFileIsNoCheckpoint) {
  write_file(root() / "model.gguf", "x");
  EXPECT_THAT(refusal((root() / "model.gguf").string()), HasSubstr("is not a directory"));
}

TEST_F(Lookup, TildeMeansHome) {
  variables_["HOME"] = root().string();
  fs::create_directories(root() / "m");
  EXPECT_EQ(located("~/m").directory, root() / "m");
}

TEST_F(Lookup, TinyIsFoundBesideTheCommandThenInThePackageThenInTheSource) {
  EXPECT_THAT(refusal("tiny"),
              AllOf(HasSubstr("isn't installed"), HasSubstr("source/models/tiny")));
  const fs::path source = add_model(root() / "source" / "models" / "tiny");
  EXPECT_EQ(located("tiny").directory, source);
  variables_["DEEPINFER_PACKAGE_DIR"] = (root() / "other").string();
  const fs::path by_variable = add_model(root() / "other" / "models" / "tiny");
  EXPECT_EQ(located("tiny").directory, by_variable);
  environment_.package_directory = root() / "package";
  const fs::path package = add_model(root() / "package" / "models" / "tiny");
  EXPECT_EQ(located("tiny").directory, package);
  const fs::path installed = add_model(root() / "usr" / "share" / "deepinfer" / "models" / "tiny");
  EXPECT_EQ(located("tiny").directory, installed);
  EXPECT_EQ(located("tiny").source, ModelSource::kBundled);
}

TEST_F(Lookup, ACompleteRepositoryIsFoundByNameAndRevision) {
  const fs::path snapshot = add_cached("models--org--name");
  EXPECT_EQ(located("org/name").directory, snapshot);
  EXPECT_EQ(located("org/name").source, ModelSource::kHubCache);
  EXPECT_EQ(located("org/name@c0ffee").directory, snapshot);
  add_cached("models--org--branched", "refs/pr/7");
  EXPECT_EQ(located("org/branched@refs/pr/7").source, ModelSource::kHubCache);
}

TEST_F(Lookup, ARepositoryOutsideTheCacheNeedsADownload) {
  const DownloadNeeded download = wanted("org/name@v2");
  EXPECT_EQ(download.repository, "org/name");
  EXPECT_EQ(download.revision, "v2");
  EXPECT_EQ(download.command, "hf download org/name --revision v2");
  EXPECT_THAT(download.reason, HasSubstr("isn't in the Hugging Face cache"));
  EXPECT_EQ(wanted("org/name").command, "hf download org/name");
  add_cached("models--org--name");
  EXPECT_THAT(wanted("org/name@v2").reason, HasSubstr("no revision v2"));
}

TEST_F(Lookup, AnIncompleteRepositoryNeedsADownloadAndSaysWhy) {
  add_cached("models--org--name");
  fs::remove(root() / "hub" / "models--org--name" / "blobs" / "deadbeef");
  write_file(root() / "hub" / "models--org--name" / "blobs" / "deadbeef.incomplete", "half");
  EXPECT_THAT(wanted("org/name").reason,
              AllOf(HasSubstr("two.safetensors is missing"), HasSubstr("1 unfinished downloads")));
}

TEST_F(Lookup, WhatIsNeitherPathNorNameIsRefused) {
  for (const char* name : {"nothing", "a/b/c", "/no/such/path", "../x", "org/", "/name",
                           "o rg/name", "org/name@", "org/name@../../x", "org/..", ""}) {
    EXPECT_THAT(refusal(name), HasSubstr("no such directory; expected")) << name;
  }
}

TEST_F(Lookup, WithoutANameTheVariableComesFirst) {
  add_cached("models--deepseek-ai--DeepSeek-V4.1-Flash-1017");
  fs::create_directories(root() / "mine");
  variables_["DEEPINFER_HF_MODEL_DIR"] = (root() / "mine").string();
  const ModelLocation found = located(std::nullopt);
  EXPECT_EQ(found.directory, root() / "mine");
  EXPECT_EQ(found.source, ModelSource::kModelDirVariable);
  EXPECT_THAT(found.sentence, HasSubstr("DEEPINFER_HF_MODEL_DIR"));
  variables_["DEEPINFER_HF_MODEL_DIR"] = (root() / "none").string();
  EXPECT_THAT(refusal(std::nullopt), HasSubstr("DEEPINFER_HF_MODEL_DIR: found "));
}

TEST_F(Lookup, WithoutANameTheDefaultIsTakenOnlyWhenComplete) {
  const fs::path tiny = add_model(root() / "source" / "models" / "tiny");
  ModelLocation found = located(std::nullopt);
  EXPECT_EQ(found.directory, tiny);
  EXPECT_EQ(found.source, ModelSource::kBundledFallback);
  EXPECT_THAT(found.sentence, AllOf(HasSubstr("no model was named"), HasSubstr("isn't in the")));
  const fs::path snapshot = add_cached("models--deepseek-ai--DeepSeek-V4.1-Flash-1017");
  found = located(std::nullopt);
  EXPECT_EQ(found.directory, snapshot);
  EXPECT_EQ(found.source, ModelSource::kDefaultInCache);
  fs::remove(snapshot / "tokenizer.json");
  found = located(std::nullopt);
  EXPECT_EQ(found.source, ModelSource::kBundledFallback);
  EXPECT_THAT(found.sentence, HasSubstr("tokenizer.json is missing"));
}

TEST_F(Lookup, TheCacheDirectoryFollowsTheVariablesInOrder) {
  variables_.clear();
  EXPECT_EQ(hub_cache_directory(environment_), "");
  variables_["HOME"] = "/h";
  EXPECT_EQ(hub_cache_directory(environment_), "/h/.cache/huggingface/hub");
  variables_["XDG_CACHE_HOME"] = "/x";
  EXPECT_EQ(hub_cache_directory(environment_), "/x/huggingface/hub");
  variables_["HF_HOME"] = "~/hf";
  EXPECT_EQ(hub_cache_directory(environment_), "/h/hf/hub");
  variables_["HF_HUB_CACHE"] = "";
  EXPECT_EQ(hub_cache_directory(environment_), "/h/hf/hub");
  variables_["HF_HUB_CACHE"] = "/c";
  EXPECT_EQ(hub_cache_directory(environment_), "/c");
}

TEST_F(Lookup, OfflineIsWhatHuggingFaceCallsTrue) {
  EXPECT_FALSE(hub_offline(environment_));
  for (const char* yes : {"1", "true", "Yes", "ON"}) {
    variables_["HF_HUB_OFFLINE"] = yes;
    EXPECT_TRUE(hub_offline(environment_)) << yes;
  }
  for (const char* no : {"0", "", "false", "2"}) {
    variables_["HF_HUB_OFFLINE"] = no;
    EXPECT_FALSE(hub_offline(environment_)) << no;
  }
}

TEST_F(Lookup, MissingFilesAreListed) {
  const fs::path directory = add_model(root() / "m");
  EXPECT_TRUE(missing_files(directory).empty());
  fs::remove(directory / "one.safetensors");
  fs::remove(directory / "config.json");
  EXPECT_THAT(missing_files(directory),
              ::testing::ElementsAre("config.json is missing", "one.safetensors is missing"));
  fs::remove(directory / "model.safetensors.index.json");
  write_file(directory / ".cache/huggingface/download/x.incomplete", "");
  EXPECT_THAT(missing_files(directory).back(),
              AllOf(HasSubstr("found neither"), HasSubstr("1 unfinished downloads")));
}

TEST(LookupProcess, TheRealEnvironmentKnowsTheExecutablesFolder) {
  const auto environment = LookupEnvironment::of_process();
  EXPECT_TRUE(fs::is_directory(environment.executable_directory));
  EXPECT_EQ(environment.variable("DEEPINFER_NO_SUCH_VARIABLE"), std::nullopt);
}

}  // namespace
}  // namespace deepinfer
