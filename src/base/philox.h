#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace deepinfer {

/// One block of the counter-based generator Philox4x32-10 (Salmon et al., "Parallel random numbers:
/// as easy as 1, 2, 3"): 128 random bits that depend on counter and key alone.
std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key);

/// The 32-bit outputs of one (seed, subsequence) in order, as the CUDA library numbers them:
/// key = seed, counter = (block, 0, subsequence low, subsequence high), words x, y, z, w in turn.
class PhiloxStream {
 public:
  PhiloxStream(std::uint64_t seed, std::uint64_t subsequence);
  std::uint32_t next();

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_{};
  std::size_t used_ = 4;
};

}  // namespace deepinfer
