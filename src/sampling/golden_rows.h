#pragma once

// Reading of tests/golden/sampler, for this room's tests.

#include <cstdint>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace deepinfer {

inline nlohmann::json read_sampler_golden(const std::string& name) {
  const std::string path = std::string(DEEPINFER_GOLDEN_DIR) + "/sampler/" + name;
  std::ifstream file(path);
  if (!file) throw std::runtime_error("missing golden data: " + path);
  return nlohmann::json::parse(file);
}

/// A number, or one of the strings "-inf", "inf", "nan".
inline float golden_float(const nlohmann::json& value) {
  if (!value.is_string()) return static_cast<float>(value.get<double>());
  if (value == "-inf") return -std::numeric_limits<float>::infinity();
  if (value == "inf") return std::numeric_limits<float>::infinity();
  return std::numeric_limits<float>::quiet_NaN();
}

inline std::vector<float> golden_floats(const nlohmann::json& values) {
  std::vector<float> result;
  for (const auto& value : values) result.push_back(golden_float(value));
  return result;
}

/// Rows made by a rule: the 24-bit integers of the README.
inline std::uint32_t rule_integer(std::uint64_t seed, std::uint64_t column) {
  std::uint64_t z = (column + 1) * 0x9E3779B97F4A7C15ULL + seed;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  z ^= z >> 31;
  return static_cast<std::uint32_t>(z >> 40);
}

inline std::vector<float> rule_logits(const nlohmann::json& rule) {
  std::vector<float> row(rule.at("width").get<std::size_t>());
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] =
        static_cast<float>(rule_integer(rule.at("seed").get<std::uint64_t>(), i)) * 0x1p-20F - 8.0F;
  }
  for (const auto& item : rule.at("overrides")) {
    row.at(item[0].get<std::size_t>()) = golden_float(item[1]);
  }
  return row;
}

/// `logits` or `rule` of a case.
inline std::vector<float> golden_logits(const nlohmann::json& test) {
  return test.contains("rule") ? rule_logits(test.at("rule")) : golden_floats(test.at("logits"));
}

}  // namespace deepinfer
