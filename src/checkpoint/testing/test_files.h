#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

// For tests only: files to feed the checkpoint room with, well-formed and not.

namespace deepinfer::testing {

/// A new empty directory, removed with everything in it at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    static std::atomic<int> counter{0};
    path_ = std::filesystem::temp_directory_path() /
            ("deepinfer_test_" + std::to_string(::getpid()) + "_" + std::to_string(counter++));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  // Golden data that isn't there must fail the test, not pass as an empty file.
  if (!file) throw std::runtime_error("test file is missing: " + path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("can't write " + path.string());
}

/// A safetensors file of any header text and data, right or wrong.
inline std::string safetensors_with_header(const std::string& header, const std::string& data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes += static_cast<char>((static_cast<std::uint64_t>(header.size()) >> (8 * i)) & 0xffU);
  }
  return bytes + header + data;
}

struct StoredTensor {
  std::string name;
  std::string dtype;  ///< a tag such as `F8_E4M3`
  std::vector<std::int64_t> shape;
  std::string data;
};

/// One entry of a header.
inline std::string header_entry(const std::string& name, const std::string& dtype,
                                const std::vector<std::int64_t>& shape, std::uint64_t begin,
                                std::uint64_t end) {
  std::string text = "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ",";
    text += std::to_string(shape[i]);
  }
  return text + "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

/// A well-formed file with the tensors in the given order.
inline std::string safetensors_bytes(const std::vector<StoredTensor>& tensors) {
  std::string header = "{";
  std::string data;
  for (const StoredTensor& tensor : tensors) {
    if (header.size() > 1) header += ",";
    header += header_entry(tensor.name, tensor.dtype, tensor.shape, data.size(),
                           data.size() + tensor.data.size());
    data += tensor.data;
  }
  return safetensors_with_header(header + "}", data);
}

}  // namespace deepinfer::testing
