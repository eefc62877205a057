#include "text/python_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace deepinfer {
namespace {

std::string reprint(std::string_view text) {
  std::string problem;
  const auto value = parse_json_value(text, &problem);
  return value ? python_json(*value) : "error: " + problem;
}

// Expected spellings are those of CPython 3.11's repr().
TEST(PythonFloat, SpellsLikeRepr) {
  EXPECT_EQ(python_float(0.0), "0.0");
  EXPECT_EQ(python_float(-0.0), "-0.0");
  EXPECT_EQ(python_float(1.0), "1.0");
  EXPECT_EQ(python_float(2.50), "2.5");
  EXPECT_EQ(python_float(-1234.5678), "-1234.5678");
  EXPECT_EQ(python_float(0.1), "0.1");
  EXPECT_EQ(python_float(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(python_float(0.0001), "0.0001");
  EXPECT_EQ(python_float(0.00012345), "0.00012345");
  EXPECT_EQ(python_float(0.00001), "1e-05");
  EXPECT_EQ(python_float(1.5e-7), "1.5e-07");
  EXPECT_EQ(python_float(123456789012345680.0), "1.2345678901234568e+17");
  EXPECT_EQ(python_float(1e15), "1000000000000000.0");
  EXPECT_EQ(python_float(9999999999999998.0), "9999999999999998.0");
  EXPECT_EQ(python_float(1e16), "1e+16");
  EXPECT_EQ(python_float(1e22), "1e+22");
  EXPECT_EQ(python_float(1e100), "1e+100");
  EXPECT_EQ(python_float(5e-324), "5e-324");
  EXPECT_EQ(python_float(std::numeric_limits<double>::max()), "1.7976931348623157e+308");
  EXPECT_EQ(python_float(std::nan("")), "NaN");
  EXPECT_EQ(python_float(std::numeric_limits<double>::infinity()), "Infinity");
  EXPECT_EQ(python_float(-std::numeric_limits<double>::infinity()), "-Infinity");
}

TEST(PythonFloat, ReadsBackAsTheSameNumber) {
  std::uint64_t bits = 1;
  for (int i = 0; i < 20000; ++i) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    double value;
    static_assert(sizeof value == sizeof bits);
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(std::strtod(python_float(value).c_str(), nullptr), value);
  }
}

TEST(PythonJson, WritesSeparatorsOrderAndNumbersLikeJsonDumps) {
  EXPECT_EQ(reprint(R"({"b":1,"a":[1,2.50,null,true],"c":{}, "d":[] })"),
            R"({"b": 1, "a": [1, 2.5, null, true], "c": {}, "d": []})");
  EXPECT_EQ(reprint("[1e16,1E5,-0,-0.0,1.0,18446744073709551615,-9223372036854775808]"),
            "[1e+16, 100000.0, 0, -0.0, 1.0, 18446744073709551615, -9223372036854775808]");
}

TEST(PythonJson, KeepsTheDigitsOfLargeIntegers) {
  EXPECT_EQ(reprint("[18446744073709551616, -123456789012345678901234567890, 1e400]").substr(0, 5),
            "error");  // a float that doesn't fit a double
  EXPECT_EQ(reprint("{\"a\": [18446744073709551616, -123456789012345678901234567890]}"),
            "{\"a\": [18446744073709551616, -123456789012345678901234567890]}");
}

TEST(PythonJson, EscapesOnlyWhatEnsureAsciiFalseEscapes) {
  EXPECT_EQ(reprint(R"("\u00e9 \ud83d\ude00 \/ \"\\ \b\f\n\r\t \u001f\u007f")"),
            "\"é 😀 / \\\"\\\\ \\b\\f\\n\\r\\t \\u001f\x7f\"");
}

TEST(PythonJson, ALaterDuplicateKeyTakesThePlaceOfTheFirst) {
  EXPECT_EQ(reprint(R"({"a":1,"b":2,"a":3})"), R"({"a": 3, "b": 2})");
}

TEST(ParseJsonValue, SaysWhatIsWrong) {
  for (const char* text : {"", "{", "nul", "[1,]", "{\"a\" 1}", "1 2", "\"\xff\"", "\"\\ud800\"",
                           "NaN", "'a'", "{1:2}"}) {
    std::string problem;
    EXPECT_FALSE(parse_json_value(text, &problem)) << text;
    EXPECT_FALSE(problem.empty()) << text;
  }
}

TEST(ParseJsonValue, ANulIsNotTheEnd) {
  EXPECT_FALSE(parse_json_value(std::string_view("1\0", 2)));
}

TEST(ParseJsonValue, RefusesDeepNestingAndOnlyThat) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(parse_json_value(nested(kMaxJsonDepth)));
  std::string problem;
  EXPECT_FALSE(parse_json_value(nested(kMaxJsonDepth + 1), &problem));
  EXPECT_NE(problem.find("256"), std::string::npos) << problem;
  EXPECT_FALSE(parse_json_value(std::string(1'000'000, '[')));
  EXPECT_TRUE(parse_json_value("\"" + std::string(1000, '[') + "\""));
}

}  // namespace
}  // namespace deepinfer
