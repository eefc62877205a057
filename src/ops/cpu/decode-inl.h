// Stored codes to float32 lanes, exactly, straight from the checkpoint's unaligned bytes. A decoder
// is one row; `group(g, scale(g), low, high, watch)` gives columns 32g .. 32g+31 as two chunks of
// sixteen. The scale is apart because the 32 rows of an FP8 tile share it (kTileScale).

#if defined(DEEPINFER_OPS_CPU_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DEEPINFER_OPS_CPU_DECODE_INL_H_
#undef DEEPINFER_OPS_CPU_DECODE_INL_H_
#else
#define DEEPINFER_OPS_CPU_DECODE_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "ops/cpu/decode_tables.h"
#include "ops/cpu/lanes16-inl.h"
#include "ops/weights.h"

HWY_BEFORE_NAMESPACE();
namespace deepinfer::cpu::HWY_NAMESPACE {

// True where decoders use vectors; elsewhere they call the scalar decoders of base/dtype.h.
#undef DEEPINFER_VECTOR_DECODE
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define DEEPINFER_VECTOR_DECODE 1
#else
#define DEEPINFER_VECTOR_DECODE 0
#endif

template <typename T>
HWY_INLINE T load_unaligned(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// Finds the NaN codes of FP8, which the vector path does not decode: two maxima a group; the strip
/// or row is then done again the plain way.
class Fp8Watch {
 public:
#if DEEPINFER_VECTOR_DECODE
  HWY_INLINE Fp8Watch() : signed_max_(hn::Zero(SignedTag())), unsigned_max_(hn::Zero(Tag())) {}
  HWY_INLINE void see(const std::uint8_t* codes32) {
    const auto codes = hn::LoadU(Tag(), codes32);
    signed_max_ = hn::Max(signed_max_, hn::BitCast(SignedTag(), codes));  // 0x7F: largest int8
    unsigned_max_ = hn::Max(unsigned_max_, codes);                        // 0xFF: largest uint8
  }
  HWY_INLINE bool hit() const {
    const auto signed_nan = hn::Eq(signed_max_, hn::Set(SignedTag(), std::int8_t{0x7f}));
    const auto unsigned_nan = hn::Eq(unsigned_max_, hn::Set(Tag(), std::uint8_t{0xff}));
    return !hn::AllFalse(SignedTag(), signed_nan) || !hn::AllFalse(Tag(), unsigned_nan);
  }

 private:
  using Tag = hn::CappedTag<std::uint8_t, 32>;
  using SignedTag = hn::CappedTag<std::int8_t, 32>;
  hn::Vec<SignedTag> signed_max_;
  hn::Vec<Tag> unsigned_max_;
#else
  HWY_INLINE void see(const std::uint8_t*) {}
  HWY_INLINE bool hit() const { return false; }
#endif
};

/// For formats whose every code is decoded by the vector path.
struct NoWatch {
  HWY_INLINE bool hit() const { return false; }
};
struct NoScale {};

struct F32Row {
  using Watch = NoWatch;
  using Scale = NoScale;
  static constexpr bool kPermuted = false;
  static constexpr bool kTileScale = false;
  static constexpr std::int64_t kGroupBytes = 128;
  const std::byte* data;

  HWY_INLINE F32Row(const LinearWeight& weight, std::int64_t row)
      : data(weight.data + row * weight.row_bytes()) {}
  static HWY_INLINE bool plain_only(const LinearWeight&, std::int64_t) { return false; }
  static HWY_INLINE bool plain_only(const LinearWeight&, std::int64_t, std::int64_t, std::int64_t) {
    return false;
  }
  HWY_INLINE Scale scale(std::int64_t) const { return {}; }
  HWY_INLINE void group(std::int64_t g, Scale, Lanes16& low, Lanes16& high, Watch&) const {
    low = chunk(data + g * 128);
    high = chunk(data + g * 128 + 64);
  }

 private:
  static HWY_INLINE Lanes16 chunk(const std::byte* from) {
    // Through bytes: a float pointer must be aligned to 4, the file's data need not be.
    float values[16];
    std::memcpy(values, from, sizeof(values));
    return load16(values);
  }
};

struct Bf16Row {
  using Watch = NoWatch;
  using Scale = NoScale;
  static constexpr bool kPermuted = false;
  static constexpr bool kTileScale = false;
  static constexpr std::int64_t kGroupBytes = 64;
  const std::byte* data;

  HWY_INLINE Bf16Row(const LinearWeight& weight, std::int64_t row)
      : data(weight.data + row * weight.row_bytes()) {}
  static HWY_INLINE bool plain_only(const LinearWeight&, std::int64_t) { return false; }
  static HWY_INLINE bool plain_only(const LinearWeight&, std::int64_t, std::int64_t, std::int64_t) {
    return false;
  }
  HWY_INLINE Scale scale(std::int64_t) const { return {}; }
  HWY_INLINE void group(std::int64_t g, Scale, Lanes16& low, Lanes16& high, Watch&) const {
    low = chunk(data + g * 64);
    high = chunk(data + g * 64 + 32);
  }

 private:
  static HWY_INLINE Lanes16 chunk(const std::byte* from) {
    Lanes16 out;
#if DEEPINFER_VECTOR_DECODE
    const hn::RebindToUnsigned<FloatTag> du;
    const hn::Rebind<std::uint16_t, FloatTag> du16;
    for (std::size_t p = 0; p < kParts; ++p) {
      const auto bits =
          hn::LoadU(du16, reinterpret_cast<const std::uint16_t*>(from + p * kLanes * 2));
      out.part[p] = hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
    }
#else
    float values[16];
    for (int i = 0; i < 16; ++i) {
      values[i] = bf16_to_float(load_unaligned<std::uint16_t>(from + 2 * i));
    }
    out = load16(values);
#endif
    return out;
  }
};

/// E4M3 codes with one UE8M0 scale for 32 columns: weights (one row of tiles) and FP8 records.
struct Fp8Row {
  using Watch = Fp8Watch;
  static constexpr bool kPermuted = false;
  static constexpr bool kTileScale = true;
  static constexpr std::int64_t kGroupBytes = 32;
  const std::uint8_t* codes;
  const std::uint8_t* scales;

  HWY_INLINE Fp8Row(const std::uint8_t* codes_, const std::uint8_t* scales_)
      : codes(codes_), scales(scales_) {}
  HWY_INLINE Fp8Row(const LinearWeight& weight, std::int64_t row)
      : codes(reinterpret_cast<const std::uint8_t*>(weight.data) + row * weight.cols),
        scales(weight.scale + row / 32 * weight.scale_cols()) {}

  /// Whether a scale is too large to take the 2^8 of the vector path, or NaN.
  static HWY_INLINE bool plain_only(const std::uint8_t* scales, std::int64_t count) {
    return DEEPINFER_VECTOR_DECODE != 0 &&
           *std::max_element(scales, scales + count) > kFp8MaxFoldedScale;
  }
  static HWY_INLINE bool plain_only(const LinearWeight& weight, std::int64_t row) {
    return plain_only(weight.scale + row / 32 * weight.scale_cols(), weight.scale_cols());
  }
  /// The same for columns [first, last) only: a block must not pay for the whole row's scales.
  static HWY_INLINE bool plain_only(const LinearWeight& weight, std::int64_t row,
                                    std::int64_t first, std::int64_t last) {
    return plain_only(weight.scale + row / 32 * weight.scale_cols() + first / 32,
                      (last + 31) / 32 - first / 32);
  }

#if DEEPINFER_VECTOR_DECODE
  using Scale = FloatVec;
  HWY_INLINE Scale scale(std::int64_t g) const {
    return hn::Set(FloatTag(), kFp8ScaleTable[scales[g]]);
  }
#else
  using Scale = float;
  HWY_INLINE Scale scale(std::int64_t g) const { return kE8M0Table[scales[g]]; }
#endif

  HWY_INLINE void group(std::int64_t g, Scale factor, Lanes16& low, Lanes16& high,
                        [[maybe_unused]] Watch& watch) const {
    const std::uint8_t* const from = codes + g * 32;
#if DEEPINFER_VECTOR_DECODE
    watch.see(from);
    for (std::size_t p = 0; p < kParts; ++p) {
      low.part[p] = hn::Mul(lanes(from + p * kLanes), factor);
      high.part[p] = hn::Mul(lanes(from + 16 + p * kLanes), factor);
    }
#else
    float values[32];
    for (int i = 0; i < 32; ++i) values[i] = e4m3_to_float(from[i]) * factor;
    low = load16(values);
    high = load16(values + 16);
#endif
  }

#if DEEPINFER_VECTOR_DECODE
 private:
  /// Values times 2^-8. Sign extension puts the sign into bits 15 .. 7; after the shift it stands
  /// in bits 15 and 14, of which FP16 wants the first only.
  static HWY_INLINE FloatVec lanes(const std::uint8_t* from) {
    const hn::Rebind<std::int8_t, FloatTag> di8;
    const hn::Rebind<std::int16_t, FloatTag> di16;
    const hn::Rebind<hwy::float16_t, FloatTag> df16;
    const auto wide =
        hn::PromoteTo(di16, hn::LoadU(di8, reinterpret_cast<const std::int8_t*>(from)));
    const auto half =
        hn::And(hn::ShiftLeft<7>(wide), hn::Set(di16, static_cast<std::int16_t>(0xbfff)));
    return hn::PromoteTo(FloatTag(), hn::BitCast(df16, half));
  }
#endif
};

#undef DEEPINFER_FP4_PERMUTED
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
#define DEEPINFER_FP4_PERMUTED 1
#else
#define DEEPINFER_FP4_PERMUTED 0
#endif

/// E2M1 codes with one UE8M0 scale for 32 columns: weights and index-key records.
///
/// On AVX-512 the lanes come out permuted (`permute_chunk` does the same to the other operand,
/// `unpermute` undoes it): eight bytes are broadcast to all 64-bit lanes, so that lane 2i sees
/// codes 0..7 and lane 2i+1 codes 8..15 and a shift by 4i brings code i or 8+i to the low bits,
/// where the table look-up wants it. One shift and one look-up a chunk, no byte shuffle; the scale
/// is multiplied into the table, once for 32 columns.
struct Fp4Row {
  using Watch = NoWatch;
  static constexpr bool kPermuted = DEEPINFER_FP4_PERMUTED != 0;
  static constexpr bool kTileScale = false;
  static constexpr std::int64_t kGroupBytes = 16;
  const std::uint8_t* codes;
  const std::uint8_t* scales;

  HWY_INLINE Fp4Row(const std::uint8_t* codes_, const std::uint8_t* scales_)
      : codes(codes_), scales(scales_) {}
  HWY_INLINE Fp4Row(const LinearWeight& weight, std::int64_t row)
      : codes(reinterpret_cast<const std::uint8_t*>(weight.data) + row * (weight.cols / 2)),
        scales(weight.scale + row * weight.scale_cols()) {}

  static HWY_INLINE bool plain_only(const LinearWeight&, std::int64_t) { return false; }
  static HWY_INLINE bool plain_only(const LinearWeight&, std::int64_t, std::int64_t, std::int64_t) {
    return false;
  }

#if DEEPINFER_VECTOR_DECODE
  using Scale = FloatVec;  // the table of (as many as fit) code values times the scale
  static HWY_INLINE Scale scaled(float factor) {
    return hn::Mul(hn::Load(FloatTag(), kE2M1Table), hn::Set(FloatTag(), factor));
  }
#else
  using Scale = float;
  static HWY_INLINE Scale scaled(float factor) { return factor; }
#endif
  HWY_INLINE Scale scale(std::int64_t g) const { return scaled(kE8M0Table[scales[g]]); }

  HWY_INLINE void group(std::int64_t g, Scale factor, Lanes16& low, Lanes16& high, Watch&) const {
    chunk(codes + g * 16, factor, low);
    chunk(codes + g * 16 + 8, factor, high);
  }

  /// Sixteen codes of eight bytes.
  static HWY_INLINE void chunk(const std::uint8_t* from, Scale factor, Lanes16& out) {
#if DEEPINFER_FP4_PERMUTED
    alignas(64) static constexpr std::uint32_t kShifts[16] = {0,  0,  4,  4,  8,  8,  12, 12,
                                                              16, 16, 20, 20, 24, 24, 28, 28};
    const hn::RebindToUnsigned<FloatTag> du;
    const hn::Repartition<std::uint64_t, FloatTag> du64;
    const auto bytes = hn::BitCast(du, hn::Set(du64, load_unaligned<std::uint64_t>(from)));
    const auto index = bytes >> hn::Load(du, kShifts);
    // Only the low four bits of an index count, so the other codes above them do no harm.
    out.part[0] = FloatVec{_mm512_permutexvar_ps(index.raw, factor.raw)};
#elif DEEPINFER_VECTOR_DECODE
    alignas(32) static constexpr std::uint32_t kShifts[8] = {0, 4, 8, 12, 16, 20, 24, 28};
    const hn::RebindToUnsigned<FloatTag> du;
    for (std::size_t p = 0; p < 2; ++p) {
      const auto bytes = hn::Set(du, load_unaligned<std::uint32_t>(from + 4 * p));
      const auto index = bytes >> hn::Load(du, kShifts);
      const FloatVec magnitude{_mm256_permutevar8x32_ps(factor.raw, index.raw)};  // low three bits
      const auto sign = hn::And(hn::ShiftLeft<28>(index), hn::Set(du, 0x80000000U));
      out.part[p] = hn::Xor(magnitude, hn::BitCast(FloatTag(), sign));
    }
#else
    float values[16];
    for (int i = 0; i < 8; ++i) {
      values[2 * i] = kE2M1Table[from[i] & 15U] * factor;
      values[2 * i + 1] = kE2M1Table[from[i] >> 4] * factor;
    }
    out = load16(values);
#endif
  }
};

/// To the lane order of a permuted decoder, and back.
HWY_INLINE Lanes16 permute_chunk(const Lanes16& lanes) {
#if DEEPINFER_FP4_PERMUTED
  alignas(64) static constexpr std::int32_t kOrder[16] = {0, 8,  1, 9,  2, 10, 3, 11,
                                                          4, 12, 5, 13, 6, 14, 7, 15};
  const hn::RebindToSigned<FloatTag> di;
  Lanes16 out;
  out.part[0] =
      hn::TableLookupLanes(lanes.part[0], hn::IndicesFromVec(FloatTag(), hn::Load(di, kOrder)));
  return out;
#else
  return lanes;
#endif
}

HWY_INLINE Lanes16 unpermute(const Lanes16& lanes) {
#if DEEPINFER_FP4_PERMUTED
  alignas(64) static constexpr std::int32_t kOrder[16] = {0, 2, 4, 6, 8, 10, 12, 14,
                                                          1, 3, 5, 7, 9, 11, 13, 15};
  const hn::RebindToSigned<FloatTag> di;
  Lanes16 out;
  out.part[0] =
      hn::TableLookupLanes(lanes.part[0], hn::IndicesFromVec(FloatTag(), hn::Load(di, kOrder)));
  return out;
#else
  return lanes;
#endif
}

/// One column of one row, exactly: the tails of rows whose length is no multiple of 32.
HWY_INLINE float decode_one(const LinearWeight& weight, std::int64_t row, std::int64_t col) {
  const std::byte* const data = weight.data + row * weight.row_bytes();
  switch (weight.format) {
    case WeightFormat::kF32:
      return load_unaligned<float>(data + 4 * col);
    case WeightFormat::kBF16:
      return bf16_to_float(load_unaligned<std::uint16_t>(data + 2 * col));
    case WeightFormat::kFp8Block32:
      return e4m3_to_float(static_cast<std::uint8_t>(data[col])) *
             e8m0_to_float(weight.scale[row / 32 * weight.scale_cols() + col / 32]);
    case WeightFormat::kFp4Group32: {
      const auto packed = static_cast<std::uint8_t>(data[col / 2]);
      return kE2M1Table[col % 2 == 0 ? packed & 15U : packed >> 4] *
             e8m0_to_float(weight.scale[row * weight.scale_cols() + col / 32]);
    }
  }
  return 0.0F;
}

/// Columns [first, last) of a row in natural order; `first` is a multiple of 32.
template <typename Row>
HWY_INLINE void decode_columns(const LinearWeight& weight, std::int64_t row, std::int64_t first,
                               std::int64_t last, float* out) {
  const Row decoder(weight, row);
  typename Row::Watch watch;
  std::int64_t col = first;
  for (; col + 32 <= last; col += 32) {
    Lanes16 low;
    Lanes16 high;
    decoder.group(col / 32, decoder.scale(col / 32), low, high, watch);
    if constexpr (Row::kPermuted) {
      low = unpermute(low);
      high = unpermute(high);
    }
    store16(low, out + (col - first));
    store16(high, out + (col - first) + 16);
  }
  if (HWY_UNLIKELY(watch.hit() || Row::plain_only(weight, row, first, last))) col = first;
  for (; col < last; ++col) out[col - first] = decode_one(weight, row, col);
}

}  // namespace deepinfer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
