#include "inputs.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace deepinfer::cli {
namespace {

std::string unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (text[i] != '\\' || (next != 'n' && next != 't' && next != '\\')) {
      out += text[i];
      continue;
    }
    out += next == 'n' ? '\n' : next == 't' ? '\t' : '\\';
    ++i;
  }
  return out;
}

std::string read_descriptor(int descriptor, const std::string& name) {
  std::string content;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = ::read(descriptor, buffer, sizeof buffer);
    if (count > 0) {
      content.append(buffer, static_cast<std::size_t>(count));
    } else if (count == 0) {
      return content;
    } else if (errno != EINTR) {
      fail_io(name + ": can't be read: " + std::strerror(errno));
    }
  }
}

}  // namespace

std::string read_input(const std::string& path, std::string_view what) {
  if (path == "-") return read_descriptor(STDIN_FILENO, "standard input");
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const std::string message = std::string(what) + " " + path + ": " + std::strerror(errno);
    fail(errno == ENOENT || errno == ENOTDIR ? ErrorKind::kInvalidArgument : ErrorKind::kIo,
         message);
  }
  struct Closer {
    int descriptor;
    ~Closer() { ::close(descriptor); }
  } closer{descriptor};
  return read_descriptor(descriptor, path);
}

std::vector<std::string> read_texts(const Options& options) {
  std::vector<std::string> texts = options.arguments();
  if (options.has("prompt")) {
    const auto& prompts = options.texts("prompt");
    texts.insert(texts.end(), prompts.begin(), prompts.end());
  }
  if (options.flag("escape")) {
    for (std::string& text : texts) text = unescape(text);
  }
  if (options.has("file")) {
    for (const std::string& path : options.texts("file")) {
      texts.push_back(read_input(path, "--file"));
    }
  }
  if (texts.empty()) {
    if (stdin_is_terminal()) {
      fail_argument("nothing to work on: give -p TEXT or -f FILE, or pipe text into stdin");
    }
    texts.push_back(read_input("-", "stdin"));
  }
  return texts;
}

bool stdin_is_terminal() { return isatty(STDIN_FILENO) == 1; }

}  // namespace deepinfer::cli
