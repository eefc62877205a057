#pragma once

#include <cstdint>

namespace deepinfer {

/// A vocabulary entry. Signed, because tensors and files of the field hold int32 ids.
using TokenId = std::int32_t;

}  // namespace deepinfer
