#include "checkpoint/checkpoint.h"

#include <array>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/mmap_file.h"
#include "checkpoint/catalogue.h"
#include "checkpoint/directory_layout.h"

namespace deepinfer {
namespace {

/// Up to this many scale bytes, looking at all of them costs well under a second even from a disk.
constexpr std::int64_t kFewScaleBytes = std::int64_t{256} << 20;

[[noreturn]] void fail_with_problems(const std::filesystem::path& directory,
                                     const std::vector<Problem>& problems) {
  // The first kind only: a missing shard explains all the missing tensors that follow from it.
  constexpr std::size_t kShown = 8;
  const ProblemKind kind = problems.front().kind;
  std::string message;
  std::size_t count = 0;
  for (const Problem& problem : problems) {
    if (problem.kind != kind) break;
    if (count++ < kShown) message += "\n  " + problem.text;
  }
  if (count > kShown) message += "\n  and " + std::to_string(count - kShown) + " more";
  fail_checkpoint(directory.string() + ": " + std::to_string(count) + " " +
                  std::string(to_string(kind)) + ":" + message);
}

}  // namespace

struct Checkpoint::Impl {
  std::filesystem::path directory;
  ModelConfig config;
  std::vector<TensorSpec> catalogue;
  std::vector<const std::byte*> data;  ///< one per catalogue entry
  std::vector<MmapFile> files;
  std::unordered_map<std::string_view, std::size_t> index;  ///< keys point into `catalogue`

  std::size_t find(std::string_view name) const {
    const auto found = index.find(name);
    if (found == index.end()) {
      fail_internal("checkpoint " + directory.string() + " has no tensor " + std::string(name));
    }
    return found->second;
  }

  void map_files(const DirectoryLayout& layout) {
    for (const Shard& shard : layout.shards) {
      try {
        files.emplace_back(shard.path);
      } catch (const Error& error) {
        fail_checkpoint(error.what());
      }
      if (files.back().bytes().size() != shard.file_bytes) {
        fail_checkpoint(shard.path.string() + ": changed its size while being opened");
      }
    }
    for (const TensorPlace& place : layout.places) {
      data.push_back(files[static_cast<std::size_t>(place.shard)].bytes().data() + place.offset);
    }
  }

  void check_scale(std::size_t number) const {
    const TensorSpec& spec = catalogue[number];
    const auto bytes = static_cast<std::size_t>(spec.bytes());
    const void* nan = std::memchr(data[number], 0xff, bytes);
    if (nan == nullptr) return;
    const std::int64_t element = static_cast<const std::byte*>(nan) - data[number];
    const std::int64_t columns = spec.shape[spec.shape.rank() - 1];
    fail_checkpoint(directory.string() + ": tensor " + spec.name + ": found byte 255 (NaN) at [" +
                    std::to_string(element / columns) + ", " + std::to_string(element % columns) +
                    "], expected UE8M0 scales of 0 to 254");
  }

  void check_all_scales(ScaleCheck check) const {
    if (check == ScaleCheck::kNone) return;
    std::int64_t total = 0;
    for (const TensorSpec& spec : catalogue) {
      if (spec.storage == Storage::kScale) total += spec.bytes();
    }
    const bool all = check == ScaleCheck::kAll || total <= kFewScaleBytes;
    for (std::size_t i = 0; i < catalogue.size(); ++i) {
      const TensorSpec& spec = catalogue[i];
      if (spec.storage != Storage::kScale) continue;
      const bool large =
          spec.part == Part::kRoutedExpert || spec.part == Part::kEngramTable ||
          (spec.part == Part::kDraft && spec.name.find(".ffn.experts.") != std::string::npos);
      if (all || !large) check_scale(i);
    }
  }
};

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Checkpoint Checkpoint::open(const std::filesystem::path& directory, const OpenOptions& options) {
  if (!std::filesystem::is_directory(directory)) {
    fail_checkpoint(directory.string() + ": is not a directory, expected a checkpoint");
  }
  auto impl = std::make_unique<Impl>();
  impl->directory = directory;
  impl->config = load_config(directory / "config.json");
  impl->catalogue = weight_catalogue(impl->config);
  const DirectoryLayout layout = read_layout(directory, impl->config, impl->catalogue);
  if (!layout.problems.empty()) fail_with_problems(directory, layout.problems);
  impl->index.reserve(impl->catalogue.size());
  for (std::size_t i = 0; i < impl->catalogue.size(); ++i) {
    impl->index.emplace(impl->catalogue[i].name, i);
  }
  impl->map_files(layout);
  impl->check_all_scales(options.scale_check);
  return Checkpoint(std::move(impl));
}

const ModelConfig& Checkpoint::config() const { return impl_->config; }
const std::filesystem::path& Checkpoint::directory() const { return impl_->directory; }
const std::filesystem::path& Checkpoint::tokenizer_directory() const { return impl_->directory; }
bool Checkpoint::has(std::string_view name) const { return impl_->index.contains(name); }

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  names.reserve(impl_->catalogue.size());
  for (const TensorSpec& spec : impl_->catalogue) names.push_back(spec.name);
  return names;
}

TensorView Checkpoint::tensor(std::string_view name) const {
  const std::size_t number = impl_->find(name);
  const TensorSpec& spec = impl_->catalogue[number];
  return {impl_->data[number], spec.dtype, spec.shape};
}

TensorView Checkpoint::rows(std::string_view name, std::int64_t begin, std::int64_t end) const {
  TensorView view = tensor(name);
  const std::int64_t count = view.shape[0];
  if (begin < 0 || begin > end || end > count) {
    fail_internal("tensor " + std::string(name) + " has " + std::to_string(count) +
                  " rows, asked for [" + std::to_string(begin) + ", " + std::to_string(end) + ")");
  }
  const auto row_bytes = static_cast<std::int64_t>(view.bytes()) / count;
  std::array<std::int64_t, Shape::kMaxRank> extents{};
  for (int axis = 0; axis < view.shape.rank(); ++axis) {
    extents[static_cast<std::size_t>(axis)] = view.shape[axis];
  }
  extents[0] = end - begin;
  view.data += begin * row_bytes;
  view.shape = Shape(
      std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(view.shape.rank())));
  return view;
}

void Checkpoint::check_scales(std::string_view name) const {
  const std::size_t number = impl_->find(name);
  if (impl_->catalogue[number].storage != Storage::kScale) {
    fail_internal("tensor " + std::string(name) + " holds no UE8M0 scales");
  }
  impl_->check_scale(number);
}

std::int64_t Checkpoint::total_bytes() const {
  std::int64_t total = 0;
  for (const TensorSpec& spec : impl_->catalogue) total += spec.bytes();
  return total;
}

}  // namespace deepinfer
