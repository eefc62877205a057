#pragma once

#include <cstddef>

namespace deepinfer {

/// A half-open byte range of a prompt that holds the spelling of exactly one added token.
struct SpecialRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  bool operator==(const SpecialRange&) const = default;
};

}  // namespace deepinfer
