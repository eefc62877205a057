#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace deepinfer {

/// A read-only memory map of a whole file. Move-only; the map lives as long as the object.
class MmapFile {
 public:
  MmapFile() = default;
  /// Throws Error(kIo) naming the path when the file can't be opened or mapped. An empty file maps
  /// to an empty span.
  explicit MmapFile(const std::filesystem::path& path);
  ~MmapFile();
  MmapFile(MmapFile&& other) noexcept;
  MmapFile& operator=(MmapFile&& other) noexcept;
  MmapFile(const MmapFile&) = delete;
  MmapFile& operator=(const MmapFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace deepinfer
