#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "options.h"

namespace deepinfer::cli {

/// The whole of a file; `-` is stdin. Throws Error(kInvalidArgument) naming `what` and the path
/// when there is no such file, Error(kIo) when reading fails.
std::string read_input(const std::string& path, std::string_view what);

/// The texts a command works on: its arguments, each `--prompt`, each `--file` read whole, or stdin
/// when nothing of these is given and it isn't a terminal. With `--escape` the sequences \n, \t and
/// \\ of arguments and prompts become characters. Throws Error(kInvalidArgument) when there is
/// nothing to work on.
std::vector<std::string> read_texts(const Options& options);

/// Whether stdin is a terminal.
bool stdin_is_terminal();

}  // namespace deepinfer::cli
