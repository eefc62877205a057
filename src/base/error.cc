#include "base/error.h"

namespace deepinfer {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return "invalid argument";
    case ErrorKind::kCheckpoint:
      return "checkpoint";
    case ErrorKind::kUnsupported:
      return "unsupported";
    case ErrorKind::kOutOfMemory:
      return "out of memory";
    case ErrorKind::kIo:
      return "I/O";
    case ErrorKind::kInternal:
      return "internal";
  }
  return "unknown";
}

}  // namespace deepinfer
