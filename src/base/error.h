#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace deepinfer {

/// What kind of thing went wrong. The command maps kinds to exit codes (docs/cli.md), Python maps
/// them to exception types.
enum class ErrorKind {
  kInvalidArgument,  ///< a caller's value: option, field, prompt, token id
  kCheckpoint,   ///< a checkpoint or tokenizer that is missing, incomplete, corrupt or unsupported
  kUnsupported,  ///< a valid request that this build or device can't serve
  kOutOfMemory,
  kIo,        ///< reading or writing failed
  kInternal,  ///< a broken promise of our own code
};

std::string_view to_string(ErrorKind kind);

/// The one exception family of the project. The message names the file, tensor, key or field, what
/// was found and what was expected.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

[[noreturn]] inline void fail(ErrorKind kind, const std::string& message) {
  throw Error(kind, message);
}
[[noreturn]] inline void fail_argument(const std::string& message) {
  fail(ErrorKind::kInvalidArgument, message);
}
[[noreturn]] inline void fail_checkpoint(const std::string& message) {
  fail(ErrorKind::kCheckpoint, message);
}
[[noreturn]] inline void fail_io(const std::string& message) { fail(ErrorKind::kIo, message); }
[[noreturn]] inline void fail_internal(const std::string& message) {
  fail(ErrorKind::kInternal, message);
}

}  // namespace deepinfer
