// A read of memory at full speed.

#include "ops/cpu/targets.h"
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/stream_sum.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include "hwy/highway.h"
#include "ops/cpu/bandwidth_probe.h"

HWY_BEFORE_NAMESPACE();
namespace deepinfer::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

std::uint64_t sum_words(const std::uint64_t* words, std::size_t count) {
  const hn::ScalableTag<std::uint64_t> d;
  const std::size_t lanes = hn::Lanes(d);
  auto a = hn::Zero(d);
  auto b = a;
  auto c = a;
  auto e = a;
  std::size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::Add(a, hn::LoadU(d, words + i));
    b = hn::Add(b, hn::LoadU(d, words + i + lanes));
    c = hn::Add(c, hn::LoadU(d, words + i + 2 * lanes));
    e = hn::Add(e, hn::LoadU(d, words + i + 3 * lanes));
  }
  std::uint64_t total = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
  for (; i < count; ++i) total += words[i];
  return total;
}

}  // namespace deepinfer::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deepinfer::cpu {

HWY_EXPORT(sum_words);

std::uint64_t stream_sum(std::span<const std::uint64_t> words) {
  return HWY_DYNAMIC_DISPATCH(sum_words)(words.data(), words.size());
}

}  // namespace deepinfer::cpu
#endif
