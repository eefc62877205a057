#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "options.h"

namespace deepinfer::cli {

class Output;

/// Arguments of a command that are no options.
struct ArgumentSpec {
  std::string_view name = "";  ///< empty: the command takes none
  std::string_view help = "";
  int most = 0;  ///< as many as it takes at most; -1: any number
};

/// One word of `deepinfer WORD ...`.
struct Command {
  std::string_view name;
  std::string_view summary;      ///< one line
  std::string_view description;  ///< more, for the command's own help; may hold line breaks
  ArgumentSpec argument;
  std::vector<OptionGroup> groups;
  int (*run)(Options& options, Output& output);
};

struct ParsedCommandLine {
  bool help = false;
  GivenValues values;
  std::vector<std::string> arguments;
};

/// Parses what follows the command's name. Throws Error(kInvalidArgument): an unknown option with
/// the nearest one that exists, a value that is missing, too many arguments.
ParsedCommandLine parse_command_line(const Command& command, const std::vector<std::string>& words);

}  // namespace deepinfer::cli
