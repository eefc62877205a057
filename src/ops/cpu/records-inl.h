// Cache records to float32 lanes.

#if defined(DEEPINFER_OPS_CPU_RECORDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DEEPINFER_OPS_CPU_RECORDS_INL_H_
#undef DEEPINFER_OPS_CPU_RECORDS_INL_H_
#else
#define DEEPINFER_OPS_CPU_RECORDS_INL_H_
#endif

#include <span>

#include "ops/cache_rows.h"
#include "ops/cpu/decode-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deepinfer::cpu::HWY_NAMESPACE {

template <typename Row>
HWY_INLINE bool decode_groups(const Row& row, std::int64_t dim, float* out) {
  typename Row::Watch watch;
  for (std::int64_t g = 0; g < dim / 32; ++g) {
    Lanes16 low;
    Lanes16 high;
    row.group(g, row.scale(g), low, high, watch);
    store16(Row::kPermuted ? unpermute(low) : low, out + g * 32);
    store16(Row::kPermuted ? unpermute(high) : high, out + g * 32 + 16);
  }
  return !watch.hit();
}

/// A record of `dim` values into out[0 .. dim); then -0 up to a multiple of 16, so that rows of
/// keys can be read in whole chunks. Dims of the packed formats are multiples of their group.
HWY_INLINE void decode_record_lanes(RecordFormat format, const std::byte* record, std::int64_t dim,
                                    float* out) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(record);
  bool done = true;
  switch (format) {
    case RecordFormat::kF32:
      std::memcpy(out, record, static_cast<std::size_t>(dim) * sizeof(float));
      break;
    case RecordFormat::kFp8Group32:
      done = dim % 32 == 0 && !Fp8Row::plain_only(bytes + dim, dim / 32) &&
             decode_groups(Fp8Row(bytes, bytes + dim), dim, out);
      break;
    case RecordFormat::kFp4Group32:
      done = dim % 32 == 0 && decode_groups(Fp4Row(bytes, bytes + dim / 2), dim, out);
      break;
    case RecordFormat::kFp4Group16E4M3:
      done = dim % 16 == 0;
      for (std::int64_t g = 0; g < dim / 16; ++g) {
        Lanes16 lanes;
        Fp4Row::chunk(bytes + g * 8, Fp4Row::scaled(kE4M3Table[bytes[dim / 2 + g]]), lanes);
        store16(unpermute(lanes), out + g * 16);
      }
      break;
  }
  if (HWY_UNLIKELY(!done)) {
    decode_record(format, record, {out, static_cast<std::size_t>(dim)});
  }
  for (std::int64_t i = dim; i % 16 != 0; ++i) out[i] = kWeightPad;
}

}  // namespace deepinfer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
