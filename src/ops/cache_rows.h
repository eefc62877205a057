#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace deepinfer {

/// The record formats of the caches (model.md 4.6). kF32 is the `exact` profile.
enum class RecordFormat : std::uint8_t {
  kF32,
  kFp8Group32,      ///< dim E4M3 bytes, then dim/32 UE8M0 scales (window KV; FP8 compressed KV)
  kFp4Group16E4M3,  ///< dim/2 packed E2M1 bytes, then dim/16 E4M3 scales (compressed KV)
  kFp4Group32,      ///< dim/2 packed E2M1 bytes, then dim/32 UE8M0 scales (index keys and queries)
};

std::int64_t record_bytes(RecordFormat format, std::int64_t dim);

/// Encodes x[dim] into one record, and back. model.md 4.4, 4.5; the definition for all back ends.
void encode_record(RecordFormat format, std::span<const float> x, std::byte* record);
void decode_record(RecordFormat format, const std::byte* record, std::span<float> out);

/// A pool of records: row i starts at data + i * stride. A view; cache/store owns the memory.
template <typename Byte>
struct BasicCacheRows {
  Byte* data = nullptr;
  RecordFormat format = RecordFormat::kF32;
  std::int64_t dim = 0;
  std::int64_t rows = 0;
  std::int64_t stride = 0;  ///< bytes from record to record

  Byte* row(std::int64_t index) const { return data + index * stride; }
  // NOLINTNEXTLINE(google-explicit-constructor): a mutable view is always usable as a const one.
  operator BasicCacheRows<const Byte>() const { return {data, format, dim, rows, stride}; }
};
using CacheRows = BasicCacheRows<std::byte>;
using ConstCacheRows = BasicCacheRows<const std::byte>;

/// Records of a sequence scattered over blocks: logical entry e of sequence s is pool row
/// block_table[s * max_blocks + e / rows_per_block] * rows_per_block + e % rows_per_block.
struct PagedRows {
  ConstCacheRows pool;
  std::int64_t rows_per_block = 0;
  std::span<const std::int32_t> block_table;
  std::int64_t max_blocks = 0;

  std::int64_t row_of(std::int64_t sequence, std::int64_t entry) const {
    const std::int64_t block =
        block_table[static_cast<std::size_t>(sequence * max_blocks + entry / rows_per_block)];
    return block * rows_per_block + entry % rows_per_block;
  }
};

}  // namespace deepinfer
