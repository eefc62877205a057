#include "api/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"

namespace deepinfer {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

Environment with(const std::map<std::string, std::string>& values) {
  return Environment([values](std::string_view name) -> std::optional<std::string> {
    const auto found = values.find(std::string(name));
    if (found == values.end()) return std::nullopt;
    return found->second;
  });
}

TEST(Environment, NamesAreUniqueAndDefaultsAreValid) {
  std::set<std::string_view> names;
  for (const EnvironmentVariable& variable : environment_variables()) {
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name;
    EXPECT_THAT(std::string(variable.name), StartsWith("DEEPINFER_"));
    EXPECT_FALSE(variable.meaning.empty());
    const std::string name(variable.name);
    with({{name, std::string(variable.default_text)}}).validate();
  }
}

TEST(Environment, ReadsTypedValues) {
  const Environment environment = with({{"DEEPINFER_NUM_THREADS", "3"},
                                        {"DEEPINFER_MAX_MEMORY", "12GiB"},
                                        {"DEEPINFER_BATCH_INVARIANT", "yes"},
                                        {"DEEPINFER_ENFORCE_EAGER", "False"},
                                        {"DEEPINFER_NUM_STATE_SLOTS_RATIO", "1.5"},
                                        {"DEEPINFER_DECODE_TOKEN_BLACKLIST", "0..3,7,10..12"}});
  EXPECT_EQ(environment.integer("DEEPINFER_NUM_THREADS"), 3);
  EXPECT_EQ(environment.bytes("DEEPINFER_MAX_MEMORY"), 12ULL << 30);
  EXPECT_EQ(environment.boolean("DEEPINFER_BATCH_INVARIANT"), true);
  EXPECT_EQ(environment.boolean("DEEPINFER_ENFORCE_EAGER"), false);
  EXPECT_EQ(environment.number("DEEPINFER_NUM_STATE_SLOTS_RATIO"), 1.5);
  EXPECT_THAT(environment.id_ranges("DEEPINFER_DECODE_TOKEN_BLACKLIST"),
              ElementsAre(0, 1, 2, 3, 7, 10, 11, 12));
  EXPECT_EQ(environment.text("DEEPINFER_ACCELERATOR"), std::nullopt);
}

TEST(Environment, BadValuesNameTheVariable) {
  const std::map<std::string, std::vector<std::string>> bad = {
      {"DEEPINFER_NUM_THREADS", {"0", "-1", "two", "3.5", "4 "}},
      {"DEEPINFER_ACCELERATOR", {"gpu", "CPU"}},
      {"DEEPINFER_MAX_MEMORY", {"lots", "12GB", "-5", "99999999999TiB"}},
      {"DEEPINFER_DECODE_TOKEN_BLACKLIST", {"3..1", "5,5", "7,3", "1..", "a", ",", "-1", "1,,2"}},
      {"DEEPINFER_DFLASH_CONFIDENCE_HEAD_TEMPERATURE", {"1.0,x", ","}},
      {"DEEPINFER_FORCE_IMBALANCE_RATIO", {"nan", "-1"}},
  };
  for (const auto& [name, values] : bad) {
    for (const std::string& value : values) {
      try {
        with({{name, value}}).validate();
        ADD_FAILURE() << name << "=" << value << " was accepted";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
        EXPECT_THAT(error.what(), StartsWith(name));
      }
    }
  }
}

TEST(Environment, EmptyMeansUnset) {
  EXPECT_EQ(with({{"DEEPINFER_NUM_THREADS", ""}}).integer("DEEPINFER_NUM_THREADS"), std::nullopt);
  EXPECT_EQ(with({{"DEEPINFER_BATCH_INVARIANT", ""}}).boolean("DEEPINFER_BATCH_INVARIANT"), false);
}

TEST(Environment, SettingsTellValueOriginAndError) {
  const Environment environment =
      with({{"DEEPINFER_ACCELERATOR", "reference"}, {"DEEPINFER_XGRAMMAR_TIMEOUT", "soon"}});
  const auto settings = environment.settings();
  EXPECT_EQ(settings.size(), environment_variables().size());
  for (const EnvironmentSetting& setting : settings) {
    if (setting.variable->name == "DEEPINFER_ACCELERATOR") {
      EXPECT_EQ(setting.value, "reference");
      EXPECT_TRUE(setting.from_environment);
    } else if (setting.variable->name == "DEEPINFER_XGRAMMAR_TIMEOUT") {
      EXPECT_THAT(setting.error, StartsWith("DEEPINFER_XGRAMMAR_TIMEOUT"));
    } else {
      EXPECT_FALSE(setting.from_environment);
      EXPECT_EQ(setting.value, setting.variable->default_text);
    }
  }
}

TEST(Environment, UnknownToUsIsIgnored) {
  with({{"DEEPINFER_GC_INTERVAL_STEP", "never"}}).validate();
}

}  // namespace
}  // namespace deepinfer
