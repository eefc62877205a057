#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace deepinfer::cli {

/// SHA-256 (FIPS 180-4) as 64 hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace deepinfer::cli
