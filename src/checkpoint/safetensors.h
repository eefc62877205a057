#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mmap_file.h"
#include "base/tensor.h"

namespace deepinfer {

/// One tensor of a safetensors header. Any tag and rank of the format is kept, so that a wrong one
/// can be named; only tensors with a `dtype` and at most four axes can be viewed.
struct SafetensorsEntry {
  std::string name;
  std::string dtype_tag;       ///< `BF16`, `F8_E4M3`, ...
  std::optional<DType> dtype;  ///< empty for tags that deepinfer doesn't read
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  ///< from the end of the header
  std::uint64_t end = 0;
};

/// The checked header of a file: entries in the order of their data.
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
  std::uint64_t data_start = 0;  ///< from the start of the file
  std::uint64_t data_bytes = 0;
};

/// Longest header accepted, as in the format's own reader.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

/// Parses the file's first bytes: 8-byte length and JSON. `prefix` holds at least the header (the
/// whole file will do), `file_bytes` is the file's size, `origin` names it in messages. As strict
/// as the format's own reader: the tensors cover the data exactly, without gaps, overlaps or bytes
/// after the last one, every size equals shape x dtype; beyond it, no name stands twice. Throws
/// Error(kCheckpoint).
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> prefix,
                                           std::uint64_t file_bytes, const std::string& origin);

/// Reads only the header of a file; never touches its data. Throws Error(kCheckpoint), also for a
/// file that is missing or can't be read.
SafetensorsHeader read_safetensors_header(const std::filesystem::path& path);

/// A memory-mapped file. Move-only; views live as long as the object.
class SafetensorsFile {
 public:
  /// Throws Error(kCheckpoint).
  explicit SafetensorsFile(const std::filesystem::path& path);

  const SafetensorsHeader& header() const { return header_; }
  const std::filesystem::path& path() const { return file_.path(); }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// nullptr when the file has no such tensor.
  const SafetensorsEntry* find(std::string_view name) const;
  /// Throws Error(kCheckpoint) when the tensor is missing or of a kind that can't be viewed.
  TensorView tensor(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  MmapFile file_;
  SafetensorsHeader header_;
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace deepinfer
