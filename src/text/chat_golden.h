#pragma once

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

// For tests of the chat format only.

namespace deepinfer {

/// A file of the golden chat data. Throws, so fails the test, when it is missing.
inline nlohmann::ordered_json read_chat_golden(const std::string& name) {
  const std::string path = std::string(DEEPINFER_GOLDEN_DIR) + "/chat/" + name;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("golden data is missing: " + path);
  return nlohmann::ordered_json::parse(
      std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
}

/// The cases of a golden file. Throws unless there are exactly `count`.
inline nlohmann::ordered_json read_chat_cases(const std::string& name, std::size_t count) {
  nlohmann::ordered_json cases = read_chat_golden(name).at("cases");
  if (cases.size() != count) {
    throw std::runtime_error(name + " has " + std::to_string(cases.size()) + " cases, expected " +
                             std::to_string(count));
  }
  return cases;
}

}  // namespace deepinfer
