#pragma once

#include <vector>

#include "command_line.h"

namespace deepinfer::cli {

Command generate_command();
Command chat_command();
Command tokenize_command();
Command detokenize_command();
Command render_command();
Command parse_command();
Command score_command();
Command inspect_command();
Command bench_command();
Command eval_command();
Command env_command();

/// Every command, in the order of the help.
std::vector<Command> all_commands();

/// The options of all commands: what a config file may name.
std::vector<OptionGroup> all_option_groups();

// Exit codes beyond 0 (docs/cli.md).
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitCheckpoint = 3;
inline constexpr int kExitFailedRequests = 4;
inline constexpr int kExitClosedPipe = 141;

}  // namespace deepinfer::cli
