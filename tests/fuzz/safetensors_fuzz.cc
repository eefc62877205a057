#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "checkpoint/safetensors.h"

/// Any bytes as a safetensors file: either a clear Error(kCheckpoint), or a header whose tensors
/// cover the data exactly.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace deepinfer;
  try {
    const auto header =
        parse_safetensors_header(std::as_bytes(std::span(data, size)), size, "fuzz");
    std::uint64_t covered = 0;
    for (const SafetensorsEntry& entry : header.entries) {
      if (entry.begin != covered || entry.end < entry.begin) std::abort();
      covered = entry.end;
    }
    if (header.data_start + covered != size) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCheckpoint) std::abort();
  }
  return 0;
}
