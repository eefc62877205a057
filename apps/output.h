#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "deepinfer/llm.h"

namespace deepinfer::cli {

/// The reader of stdout is gone. Ends the command with exit code 141 and no message; not an Error,
/// so that nobody takes it for one.
struct ClosedPipe {};

/// stdout: results only. Buffered unless it is a terminal.
class Output {
 public:
  Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Throws ClosedPipe, or Error(kIo) with the system's reason (disk full, ...).
  void write(std::string_view text);
  void line(std::string_view text) {
    write(text);
    write("\n");
  }
  void flush();

  bool is_terminal() const { return is_terminal_; }

 private:
  std::string buffer_;
  bool is_terminal_;
};

/// One line on stderr for people: `deepinfer: TEXT`. A closed stderr is nobody's fault.
void tell(std::string_view text);

/// A line on stderr that is drawn over again. Silent unless `enabled`.
class ProgressLine {
 public:
  explicit ProgressLine(bool enabled) : enabled_(enabled) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Draws at most ten times a second. `what`: the unit counted, in the plural.
  void update(const Progress& progress, std::string_view what);
  void clear();

 private:
  bool enabled_;
  bool drawn_ = false;
  double last_ = -1.0;
  double start_ = -1.0;
};

/// Whether a result is a failure to report. One that the user interrupted is not: it keeps the
/// tokens it got, and the exit code says the rest.
template <typename Result>
bool is_failure(const Result& result) {
  return result.failed() && result.finish_reason != finish_reason::kAbort;
}

/// Seconds of a clock that never goes back.
double monotonic_seconds();

/// Valid UTF-8 whatever `bytes` holds: each invalid sequence becomes U+FFFD.
std::string to_utf8(std::string_view bytes);

}  // namespace deepinfer::cli
