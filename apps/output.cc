#include "output.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "text/utf8.h"

namespace deepinfer::cli {
namespace {

constexpr std::size_t kBufferBytes = 1 << 16;

}  // namespace

Output::Output() : is_terminal_(isatty(STDOUT_FILENO) == 1) {}

void Output::write(std::string_view text) {
  buffer_ += text;
  if (is_terminal_ || buffer_.size() >= kBufferBytes) flush();
}

void Output::flush() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    if (errno == EINTR) continue;
    const int reason = errno;
    buffer_.clear();  // a second try, at the end, would only fail again
    if (reason == EPIPE) throw ClosedPipe{};
    fail_io(std::string("standard output can't be written: ") + std::strerror(reason));
  }
  buffer_.clear();
}

void tell(std::string_view text) {
  const std::string line = "deepinfer: " + std::string(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void ProgressLine::update(const Progress& progress, std::string_view what) {
  if (!enabled_) return;
  const double now = monotonic_seconds();
  if (start_ < 0) start_ = now;
  if (drawn_ && now - last_ < 0.1) return;
  last_ = now;
  drawn_ = true;
  const double seconds = now - start_;
  const double rate = seconds > 0 ? static_cast<double>(progress.generated_tokens) / seconds : 0.0;
  std::fprintf(stderr, "\r\033[K%zu/%zu %.*s, %llu tokens, %.1f tokens/s", progress.finished,
               progress.total, static_cast<int>(what.size()), what.data(),
               static_cast<unsigned long long>(progress.generated_tokens), rate);
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

std::string to_utf8(std::string_view bytes) {
  std::string text;
  append_utf8_lossy(bytes, false, text);
  return text;
}

}  // namespace deepinfer::cli
