// Sixteen float lanes, the unit of the reduction contract (docs/numerics.md, rule 1), on whatever
// vectors the target has: one 512-bit, two 256-bit, four 128-bit, sixteen scalars. Element k of a
// dot product lives in lane k mod 16, so every target does the same additions.

#if defined(DEEPINFER_OPS_CPU_LANES16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DEEPINFER_OPS_CPU_LANES16_INL_H_
#undef DEEPINFER_OPS_CPU_LANES16_INL_H_
#else
#define DEEPINFER_OPS_CPU_LANES16_INL_H_
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/math.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace deepinfer::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using FloatVec = hn::Vec<FloatTag>;
constexpr std::size_t kLanes = hn::MaxLanes(FloatTag());
constexpr std::size_t kParts = 16 / kLanes;
/// Pads the weight side of a last, partial chunk; the other side is padded with +0. The product is
/// -0, and x + -0 is x for every x, -0 included: the lane stays as if it had received no element.
constexpr float kWeightPad = -0.0F;

/// a * b + c with one rounding on every target; Highway's MulAdd rounds twice where there is no
/// FMA.
HWY_INLINE FloatVec fused(FloatVec a, FloatVec b, FloatVec c) {
#if HWY_TARGET == HWY_SCALAR
  return FloatVec(std::fma(a.raw, b.raw, c.raw));
#elif HWY_TARGET == HWY_EMU128
  FloatVec out;
  for (std::size_t i = 0; i < kLanes; ++i) out.raw[i] = std::fma(a.raw[i], b.raw[i], c.raw[i]);
  return out;
#elif HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2
  // A baseline without FMA that a later Highway may add: right, not fast.
  float x[kLanes];
  float y[kLanes];
  float z[kLanes];
  hn::StoreU(a, FloatTag(), x);
  hn::StoreU(b, FloatTag(), y);
  hn::StoreU(c, FloatTag(), z);
  for (std::size_t i = 0; i < kLanes; ++i) z[i] = std::fma(x[i], y[i], z[i]);
  return hn::LoadU(FloatTag(), z);
#else
  return hn::MulAdd(a, b, c);
#endif
}

struct Lanes16 {
  FloatVec part[kParts];
};

HWY_INLINE Lanes16 zero16() {
  Lanes16 out;
  for (FloatVec& part : out.part) part = hn::Zero(FloatTag());
  return out;
}

HWY_INLINE Lanes16 load16(const float* from) {
  Lanes16 out;
  for (std::size_t p = 0; p < kParts; ++p) out.part[p] = hn::LoadU(FloatTag(), from + p * kLanes);
  return out;
}

/// The first `count` < 16 elements, then `pad`.
HWY_INLINE Lanes16 load16_partial(const float* from, std::size_t count, float pad) {
  float buffer[16];
  for (std::size_t i = 0; i < 16; ++i) buffer[i] = i < count ? from[i] : pad;
  return load16(buffer);
}

HWY_INLINE void store16(const Lanes16& lanes, float* to) {
  for (std::size_t p = 0; p < kParts; ++p) hn::StoreU(lanes.part[p], FloatTag(), to + p * kLanes);
}

HWY_INLINE Lanes16 fused16(const Lanes16& a, const Lanes16& b, const Lanes16& c) {
  Lanes16 out;
  for (std::size_t p = 0; p < kParts; ++p) out.part[p] = fused(a.part[p], b.part[p], c.part[p]);
  return out;
}

HWY_INLINE Lanes16 add16(const Lanes16& a, const Lanes16& b) {
  Lanes16 out;
  for (std::size_t p = 0; p < kParts; ++p) out.part[p] = hn::Add(a.part[p], b.part[p]);
  return out;
}

#if HWY_TARGET == HWY_SCALAR

HWY_INLINE float reduce16(const Lanes16& lanes) {
  float sums[16];
  store16(lanes, sums);
  return ::deepinfer::reduce16(sums);
}

/// out[i] = the tree of rule 1 over acc[i * stride .. + 16), i = 0..3.
HWY_INLINE void reduce16_x4(const float* acc, std::size_t stride, float* out) {
  for (std::size_t i = 0; i < 4; ++i) out[i] = reduce16(load16(acc + i * stride));
}

#else

using QuadTag = hn::CappedTag<float, 4>;
using QuadVec = hn::Vec<QuadTag>;

/// Halves of a vector added until four lanes are left.
template <class D>
HWY_INLINE QuadVec fold_to_quad(D d, hn::Vec<D> lanes) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return lanes;
  } else {
    const hn::Half<D> half;
    return fold_to_quad(half, hn::Add(hn::LowerHalf(half, lanes), hn::UpperHalf(half, lanes)));
  }
}

/// The first two levels of the tree: sixteen partial sums to four.
HWY_INLINE QuadVec reduce_to_quad(Lanes16 lanes) {
  for (std::size_t width = kParts / 2; width >= 1; width /= 2) {
    for (std::size_t p = 0; p < width; ++p) {
      lanes.part[p] = hn::Add(lanes.part[p], lanes.part[p + width]);
    }
  }
  return fold_to_quad(FloatTag(), lanes.part[0]);
}

HWY_INLINE float reduce16(const Lanes16& lanes) {
  const QuadVec quad = reduce_to_quad(lanes);
  const QuadVec pair = hn::Add(quad, hn::Shuffle1032(quad));
  return hn::GetLane(hn::Add(pair, hn::Shuffle2301(pair)));
}

/// Four trees at once, which shares the last two levels' shuffles.
HWY_INLINE void reduce16_x4(const Lanes16& a, const Lanes16& b, const Lanes16& c, const Lanes16& d,
                            float* out) {
  const QuadTag dq;
  const QuadVec qa = reduce_to_quad(a);
  const QuadVec qb = reduce_to_quad(b);
  const QuadVec qc = reduce_to_quad(c);
  const QuadVec qd = reduce_to_quad(d);
  const auto interleave = [&](QuadVec x, QuadVec y) HWY_ATTR {  // x0+x2, y0+y2, x1+x3, y1+y3
    return hn::Add(hn::InterleaveLower(dq, x, y), hn::InterleaveUpper(dq, x, y));
  };
  const hn::Repartition<double, QuadTag> dd;
  const auto ab = hn::BitCast(dd, interleave(qa, qb));
  const auto cd = hn::BitCast(dd, interleave(qc, qd));
  const QuadVec low = hn::BitCast(dq, hn::InterleaveLower(dd, ab, cd));   // a0 b0 c0 d0
  const QuadVec high = hn::BitCast(dq, hn::InterleaveUpper(dd, ab, cd));  // a1 b1 c1 d1
  hn::StoreU(hn::Add(low, high), dq, out);
}

HWY_INLINE void reduce16_x4(const float* acc, std::size_t stride, float* out) {
  reduce16_x4(load16(acc), load16(acc + stride), load16(acc + 2 * stride), load16(acc + 3 * stride),
              out);
}

#endif  // HWY_TARGET == HWY_SCALAR

/// Rule 1. Four-cycle latency a step hides only behind other work: for long or many rows use the
/// tile and strip kernels.
HWY_INLINE float dot(const float* a, const float* b, std::size_t count) {
  Lanes16 acc = zero16();
  std::size_t k = 0;
  for (; k + 16 <= count; k += 16) acc = fused16(load16(a + k), load16(b + k), acc);
  if (k < count) {
    acc = fused16(load16_partial(a + k, count - k, kWeightPad),
                  load16_partial(b + k, count - k, 0.0F), acc);
  }
  return reduce16(acc);
}

/// Rule 2.
HWY_INLINE float sum(const float* a, std::size_t count) {
  Lanes16 acc = zero16();
  std::size_t k = 0;
  for (; k + 16 <= count; k += 16) acc = add16(acc, load16(a + k));
  if (k < count) acc = add16(acc, load16_partial(a + k, count - k, -0.0F));
  return reduce16(acc);
}

// --- elementwise helpers: any vector width gives the same bits -----------------------------------

/// `count` elements (at most a vector); the rest are zeros.
HWY_INLINE FloatVec load_lanes(const float* from, std::size_t count) {
  if (HWY_LIKELY(count >= kLanes)) return hn::LoadU(FloatTag(), from);
  return hn::MaskedLoad(hn::FirstN(FloatTag(), count), FloatTag(), from);
}

HWY_INLINE void store_lanes(FloatVec value, float* to, std::size_t count) {
  if (HWY_LIKELY(count >= kLanes)) {
    hn::StoreU(value, FloatTag(), to);
  } else {
    hn::BlendedStore(value, hn::FirstN(FloatTag(), count), FloatTag(), to);
  }
}

/// exp_f32 of base/math.h, operation by operation.
HWY_INLINE FloatVec exp_lanes(FloatVec x) {
  using C = ExpConstants;
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const auto in_range = hn::And(hn::Ge(x, hn::Set(d, C::kMin)), hn::Le(x, hn::Set(d, C::kMax)));
  const FloatVec safe = hn::IfThenElseZero(in_range, x);
  const FloatVec round = hn::Set(d, C::kRound);
  const FloatVec n = hn::Sub(fused(safe, hn::Set(d, C::kLog2E), round), round);
  FloatVec r = fused(n, hn::Set(d, -C::kLn2High), safe);
  r = fused(n, hn::Set(d, -C::kLn2Low), r);
  FloatVec p = hn::Set(d, C::kC7);
  p = fused(p, r, hn::Set(d, C::kC6));
  p = fused(p, r, hn::Set(d, C::kC5));
  p = fused(p, r, hn::Set(d, C::kC4));
  p = fused(p, r, hn::Set(d, C::kC3));
  p = fused(p, r, hn::Set(d, C::kC2));
  p = fused(p, r, hn::Set(d, 1.0F));
  p = fused(p, r, hn::Set(d, 1.0F));
  const auto exponent = hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127));
  const FloatVec value = hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(exponent)));
  // Outside the range: NaN stays, above is infinity, below is zero.
  const FloatVec infinity = hn::Set(d, HUGE_VALF);
  const FloatVec outside = hn::IfThenElse(hn::Gt(x, hn::Set(d, C::kMax)), infinity,
                                          hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, C::kMin)), x));
  return hn::IfThenElse(in_range, value, outside);
}

}  // namespace deepinfer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
