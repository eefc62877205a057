#pragma once

#include <string>
#include <vector>

#include "command_line.h"

namespace deepinfer::cli {

/// `deepinfer --help`.
std::string main_help(const std::vector<Command>& commands);

/// `deepinfer COMMAND --help`: options by group, each with its default.
std::string command_help(const Command& command);

}  // namespace deepinfer::cli
