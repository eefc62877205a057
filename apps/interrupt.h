#pragma once

namespace deepinfer::cli {

/// Makes Ctrl-C end the process with exit code 130 at once, and writing to a closed pipe an error
/// code instead of a signal. Call once, first.
void install_signal_handling();

/// While one of these lives, the first Ctrl-C only raises a flag, so that running requests can be
/// ended and finished results kept; a second one ends the process.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  bool interrupted() const;
};

/// Exit code of an interrupted command.
inline constexpr int kInterruptedExit = 130;

}  // namespace deepinfer::cli
