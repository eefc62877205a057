#include "checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "checkpoint/json_util.h"

namespace deepinfer {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;

struct Tag {
  std::string_view name;
  unsigned bits;
  std::optional<DType> dtype;
};

constexpr std::array<Tag, 22> kTags{{
    {"BOOL", 8, {}},
    {"F4", 4, {}},
    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},
    {"U8", 8, DType::kU8},
    {"I8", 8, DType::kI8},
    {"F8_E5M2", 8, {}},
    {"F8_E4M3", 8, DType::kF8E4M3},
    {"F8_E8M0", 8, DType::kF8E8M0},
    {"F8_E4M3FNUZ", 8, {}},
    {"F8_E5M2FNUZ", 8, {}},
    {"I16", 16, {}},
    {"U16", 16, {}},
    {"F16", 16, {}},
    {"BF16", 16, DType::kBF16},
    {"I32", 32, DType::kI32},
    {"U32", 32, {}},
    {"F32", 32, DType::kF32},
    {"C64", 64, {}},
    {"F64", 64, {}},
    {"I64", 64, DType::kI64},
    {"U64", 64, {}},
}};

/// Reads one header, with the file's and the tensor's name in every message.
class HeaderParser {
 public:
  explicit HeaderParser(const std::string& origin) : origin_(origin) {}

  SafetensorsEntry entry(const std::string& name, const json& info) {
    name_ = &name;
    if (!info.is_object()) fail("found " + describe(info) + ", expected an object");
    SafetensorsEntry entry;
    entry.name = name;
    const json& tag = field(info, "dtype");
    if (!tag.is_string()) fail("dtype: found " + describe(tag) + ", expected a string");
    entry.dtype_tag = tag.get<std::string>();
    const auto* known = std::find_if(kTags.begin(), kTags.end(),
                                     [&](const Tag& t) { return t.name == entry.dtype_tag; });
    if (known == kTags.end()) fail("dtype: found " + describe(tag) + ", a tag the format lacks");
    entry.dtype = known->dtype;
    const json& shape = field(info, "shape");
    if (!shape.is_array()) fail("shape: found " + describe(shape) + ", expected a list");
    for (const json& extent : shape) {
      entry.shape.push_back(static_cast<std::int64_t>(number("shape", extent)));
    }
    const json& offsets = field(info, "data_offsets");
    if (!offsets.is_array() || offsets.size() != 2) {
      fail("data_offsets: found " + describe(offsets) + ", expected [begin, end]");
    }
    entry.begin = number("data_offsets", offsets[0]);
    entry.end = number("data_offsets", offsets[1]);
    if (entry.begin > entry.end) fail("data_offsets: begin > end in " + describe(offsets));
    check_size(entry, known->bits);
    return entry;
  }

  [[noreturn]] void fail(const std::string& message) const {
    fail_checkpoint(origin_ + ": tensor " + describe(*name_) + ": " + message);
  }

 private:
  const json& field(const json& info, const char* key) const {
    const auto found = info.find(key);
    if (found == info.end()) fail(std::string("has no ") + key);
    return *found;
  }

  std::uint64_t number(const char* key, const json& value) const {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > INT64_MAX) {
      fail(std::string(key) + ": found " + describe(value) + ", expected a number in [0, 2^63)");
    }
    return value.get<std::uint64_t>();
  }

  void check_size(const SafetensorsEntry& entry, unsigned bits) const {
    std::uint64_t size = bits;
    for (const std::int64_t extent : entry.shape) {
      if (__builtin_mul_overflow(size, static_cast<std::uint64_t>(extent), &size)) {
        fail("shape: the size overflows 64 bits");
      }
    }
    if (size % 8 != 0) fail("shape: the tensor ends inside a byte");
    if (entry.end - entry.begin != size / 8) {
      fail("data_offsets cover " + std::to_string(entry.end - entry.begin) +
           " bytes, but shape and dtype " + entry.dtype_tag + " need " + std::to_string(size / 8));
    }
  }

  const std::string& origin_;
  const std::string* name_ = nullptr;
};

void read_metadata(const json& value, const std::string& origin, SafetensorsHeader& header) {
  if (!value.is_object()) {
    fail_checkpoint(origin + ": __metadata__: found " + describe(value) + ", expected an object");
  }
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      fail_checkpoint(origin + ": __metadata__." + key + ": found " + describe(text) +
                      ", expected a string");
    }
    header.metadata.emplace(key, text.get<std::string>());
  }
}

void check_layout(SafetensorsHeader& header, const std::string& origin) {
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t covered = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    const std::string where = origin + ": tensor " + describe(entry.name) + ": ";
    if (entry.begin < covered) {
      fail_checkpoint(where + "data_offsets overlap the tensor before it: begin " +
                      std::to_string(entry.begin) + ", expected " + std::to_string(covered));
    }
    if (entry.begin > covered) {
      fail_checkpoint(where + "data_offsets leave a hole: begin " + std::to_string(entry.begin) +
                      ", expected " + std::to_string(covered));
    }
    if (entry.end > header.data_bytes) {
      fail_checkpoint(where + "data ends at byte " + std::to_string(entry.end) +
                      " of the data, but the file holds only " + std::to_string(header.data_bytes) +
                      ": truncated file?");
    }
    covered = entry.end;
  }
  if (covered != header.data_bytes) {
    fail_checkpoint(origin + ": found " + std::to_string(header.data_bytes - covered) +
                    " bytes after the last tensor, expected none");
  }
}

/// Closes on every path out.
class FileDescriptor {
 public:
  explicit FileDescriptor(const std::filesystem::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), path_(path) {
    if (fd_ < 0) fail("can't open");
  }
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  [[noreturn]] void fail(const char* what) const {
    fail_checkpoint(path_.string() + ": " + what + ": " + std::generic_category().message(errno));
  }

  std::uint64_t size() const {
    struct stat status{};
    if (::fstat(fd_, &status) != 0) fail("can't stat");
    if (!S_ISREG(status.st_mode)) fail_checkpoint(path_.string() + ": is not a regular file");
    return static_cast<std::uint64_t>(status.st_size);
  }

  void read_at(std::uint64_t offset, std::span<std::byte> target) const {
    while (!target.empty()) {
      const ssize_t count = ::pread(fd_, target.data(), target.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("can't read");
      if (count == 0) fail_checkpoint(path_.string() + ": became shorter while being read");
      offset += static_cast<std::uint64_t>(count);
      target = target.subspan(static_cast<std::size_t>(count));
    }
  }

 private:
  int fd_;
  const std::filesystem::path& path_;
};

MmapFile map(const std::filesystem::path& path) {
  try {
    return MmapFile(path);
  } catch (const Error& error) {
    // For a user, a shard that can't be opened is a broken checkpoint like any other.
    fail_checkpoint(error.what());
  }
}

/// The header's length, checked against the file's size.
std::uint64_t header_length(std::span<const std::byte> prefix, std::uint64_t file_bytes,
                            const std::string& origin) {
  if (file_bytes < kLengthBytes || prefix.size() < kLengthBytes) {
    fail_checkpoint(origin + ": found " + std::to_string(file_bytes) +
                    " bytes, expected a safetensors file of at least 8: truncated file?");
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= static_cast<std::uint64_t>(prefix[i]) << (8 * i);
  }
  if (length == 0 || length > kMaxSafetensorsHeader) {
    fail_checkpoint(origin + ": found a header length of " + std::to_string(length) +
                    ", expected 1 to " + std::to_string(kMaxSafetensorsHeader) +
                    ": not a safetensors file?");
  }
  if (length > file_bytes - kLengthBytes) {
    fail_checkpoint(origin + ": found a header length of " + std::to_string(length) +
                    " in a file of " + std::to_string(file_bytes) + " bytes: truncated file?");
  }
  return length;
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> prefix,
                                           std::uint64_t file_bytes, const std::string& origin) {
  const std::uint64_t length = header_length(prefix, file_bytes, origin);
  if (prefix.size() - kLengthBytes < length) fail_internal("the span ends inside the header");
  const std::string_view text(reinterpret_cast<const char*>(prefix.data()) + kLengthBytes, length);
  const json document = parse_strict_json(text, origin + ": header");
  if (!document.is_object()) {
    fail_checkpoint(origin + ": header: found " + describe(document) + ", expected an object");
  }
  SafetensorsHeader header;
  header.data_start = kLengthBytes + length;
  header.data_bytes = file_bytes - header.data_start;
  HeaderParser parser(origin);
  for (const auto& [name, info] : document.items()) {
    if (name == "__metadata__") {
      read_metadata(info, origin, header);
    } else {
      header.entries.push_back(parser.entry(name, info));
    }
  }
  check_layout(header, origin);
  return header;
}

SafetensorsHeader read_safetensors_header(const std::filesystem::path& path) {
  const FileDescriptor file(path);
  const std::uint64_t size = file.size();
  std::vector<std::byte> prefix(std::min(size, kLengthBytes));
  file.read_at(0, prefix);
  const std::uint64_t length = header_length(prefix, size, path.string());
  prefix.resize(kLengthBytes + length);
  file.read_at(kLengthBytes, std::span(prefix).subspan(kLengthBytes));
  return parse_safetensors_header(prefix, size, path.string());
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(map(path)),
      header_(parse_safetensors_header(file_.bytes(), file_.bytes().size(), path.string())) {
  index_.reserve(header_.entries.size());
  for (std::size_t i = 0; i < header_.entries.size(); ++i) {
    index_.emplace(header_.entries[i].name, i);
  }
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &header_.entries[found->second];
}

TensorView SafetensorsFile::tensor(std::string_view name) const {
  const SafetensorsEntry* entry = find(name);
  const std::string where = path().string() + ": tensor " + std::string(name) + ": ";
  if (entry == nullptr) fail_checkpoint(where + "is missing");
  if (!entry->dtype) fail_checkpoint(where + "dtype " + entry->dtype_tag + " isn't supported");
  if (entry->shape.size() > static_cast<std::size_t>(Shape::kMaxRank)) {
    fail_checkpoint(where + "has " + std::to_string(entry->shape.size()) +
                    " axes, expected at most " + std::to_string(Shape::kMaxRank));
  }
  return {file_.bytes().data() + header_.data_start + entry->begin, *entry->dtype,
          Shape(std::span<const std::int64_t>(entry->shape))};
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  names.reserve(header_.entries.size());
  for (const SafetensorsEntry& entry : header_.entries) names.push_back(entry.name);
  return names;
}

}  // namespace deepinfer
