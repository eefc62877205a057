#pragma once

#include <cstdint>
#include <string_view>

namespace deepinfer {

/// Where the model rounds (model.md 2).
enum class NumericsProfile : std::uint8_t {
  kExact,       ///< float32 everywhere, caches too
  kExactCache,  ///< as kExact, with the caches in the checkpoint's record formats
  kProduction,  ///< bf16 between ops, FP8 activations: accelerators
};

std::string_view to_string(NumericsProfile profile);

/// Parses `exact`, `exact+cache`, `production`; throws Error(kInvalidArgument) naming `origin`.
NumericsProfile parse_numerics_profile(std::string_view text, std::string_view origin);

}  // namespace deepinfer
