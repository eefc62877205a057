#include "base/mmap_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace deepinfer {
namespace {

[[noreturn]] void fail_with_errno(const std::filesystem::path& path, const char* what) {
  fail_io(path.string() + ": " + what + ": " + std::generic_category().message(errno));
}

}  // namespace

MmapFile::MmapFile(const std::filesystem::path& path) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_with_errno(path, "can't open");
  struct stat status{};
  if (::fstat(fd, &status) != 0) {
    ::close(fd);
    fail_with_errno(path, "can't stat");
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(fd);
    fail_io(path.string() + ": is not a regular file");
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ > 0) {
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED) {
      ::close(fd);
      fail_with_errno(path, "can't map");
    }
    data_ = static_cast<const std::byte*>(address);
  }
  ::close(fd);
}

MmapFile::~MmapFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MmapFile::MmapFile(MmapFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MmapFile& MmapFile::operator=(MmapFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace deepinfer
