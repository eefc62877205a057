#include "commands/commands.h"

namespace deepinfer::cli {

std::vector<Command> all_commands() {
  return {generate_command(), chat_command(),  tokenize_command(), detokenize_command(),
          render_command(),   parse_command(), score_command(),    inspect_command(),
          bench_command(),    eval_command(),  env_command()};
}

std::vector<OptionGroup> all_option_groups() {
  std::vector<OptionGroup> groups;
  for (Command& command : all_commands()) {
    for (OptionGroup& group : command.groups) groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace deepinfer::cli
