#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "checkpoint/config.h"

namespace deepinfer {

/// Which UE8M0 scale bytes are searched for NaN (byte 255) when a checkpoint opens.
enum class ScaleCheck {
  kAuto,  ///< all when they are few; else all but those of routed experts and Engram tables
  kAll,
  kNone,
};

struct OpenOptions {
  ScaleCheck scale_check = ScaleCheck::kAuto;
};

/// An open checkpoint directory: `config.json` and the weights, memory-mapped and kept as stored.
/// Tensors are named as in model.md 4.2 without the leading `model.` that a file may carry.
/// Move-only; views live as long as the object (moving it keeps them valid). All const members may
/// be called from several threads.
class Checkpoint {
 public:
  /// Opens and checks a directory: configuration, index, every shard's header, and that the tensors
  /// are exactly those of `weight_catalogue(config)` with their shapes and dtypes (U8 passes for I8
  /// and F8_E8M0). No weight is read but the scales of `options.scale_check`. Throws
  /// Error(kCheckpoint) naming file, tensor or key, what was found and what was expected.
  static Checkpoint open(const std::filesystem::path& directory, const OpenOptions& options = {});

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const ModelConfig& config() const;
  const std::filesystem::path& directory() const;
  /// Where `tokenizer.json` (and maybe `tokenizer_config.json`) lie; the checkpoint's directory.
  const std::filesystem::path& tokenizer_directory() const;

  bool has(std::string_view name) const;
  /// All names in the catalogue's order.
  std::vector<std::string> names() const;

  /// The stored bytes of a tensor, with the catalogue's dtype. May lie at any byte address. Throws
  /// Error(kInternal) for a name that the catalogue lacks.
  TensorView tensor(std::string_view name) const;

  /// Rows [begin, end) of a tensor's first axis. Throws Error(kInternal) for a bad range.
  TensorView rows(std::string_view name, std::int64_t begin, std::int64_t end) const;

  /// Throws Error(kCheckpoint) naming the tensor and the element when `scale`, a UE8M0 tensor,
  /// holds byte 255 (model.md 4.3). For loaders of what `open` didn't look at: experts, Engram
  /// rows.
  void check_scales(std::string_view name) const;

  /// Bytes of all tensors.
  std::int64_t total_bytes() const;

 private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace deepinfer
