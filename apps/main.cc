#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "command_line.h"
#include "commands/commands.h"
#include "config_file.h"
#include "help.h"
#include "interrupt.h"
#include "option_groups.h"
#include "output.h"

namespace deepinfer::cli {
namespace {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return kExitUsage;
    case ErrorKind::kCheckpoint:
      return kExitCheckpoint;
    case ErrorKind::kUnsupported:
    case ErrorKind::kOutOfMemory:
    case ErrorKind::kIo:
    case ErrorKind::kInternal:
      return kExitFailure;
  }
  return kExitFailure;
}

int run_command(const Command& command, const std::vector<std::string>& words, Output& output) {
  ParsedCommandLine parsed = parse_command_line(command, words);
  if (parsed.help) {
    output.write(command_help(command));
    return 0;
  }
  const GivenValues environment = environment_values(command.groups);
  GivenValues from_file;
  const auto named = parsed.values.find("config");
  const auto variable = environment.find("config");
  if (named != parsed.values.end()) {
    from_file = read_config_file(named->second.values.front(), all_option_groups());
  } else if (variable != environment.end()) {
    from_file = read_config_file(variable->second.values.front(), all_option_groups());
  }
  Options options(command.groups, {std::move(parsed.values), environment, std::move(from_file)},
                  std::move(parsed.arguments));
  apply_log_level(options);
  return command.run(options, output);
}

int dispatch(const std::vector<std::string>& words, Output& output) {
  const std::vector<Command> commands = all_commands();
  if (words.empty()) {
    std::fputs(main_help(commands).c_str(), stderr);
    return kExitUsage;
  }
  const std::string& word = words.front();
  if (word == "--help" || word == "-h") {
    output.write(main_help(commands));
    return 0;
  }
  if (word == "--version") {
    output.line("deepinfer " DEEPINFER_VERSION);
    return 0;
  }
  std::vector<std::string> names;
  for (const Command& command : commands) {
    if (command.name == word) {
      return run_command(command, {words.begin() + 1, words.end()}, output);
    }
    names.emplace_back(command.name);
  }
  const bool option = word.starts_with('-');
  if (option) names = {"--help", "--version"};
  const std::string nearest = nearest_match(word, names);
  fail_argument((option ? "unknown option " : "unknown command ") + word +
                (nearest.empty() ? std::string() : "; did you mean " + nearest + "?"));
}

// What was finished before an error is still a result.
void flush_quietly(Output& output) {
  try {
    output.flush();
  } catch (...) {  // NOLINT(bugprone-empty-catch): the first error is the one to report
  }
}

int run(const std::vector<std::string>& words) {
  Output output;
  try {
    const int code = dispatch(words, output);
    output.flush();
    return code;
  } catch (const ClosedPipe&) {
    return kExitClosedPipe;
  } catch (const Error& error) {
    flush_quietly(output);
    tell(std::string("error: ") + error.what());
    return exit_code(error.kind());
  } catch (const std::bad_alloc&) {
    tell("error: out of memory");
    return kExitFailure;
  } catch (const std::exception& error) {
    tell(std::string("internal error: ") + error.what());
    return kExitFailure;
  }
}

}  // namespace
}  // namespace deepinfer::cli

int main(int count, char** words) {
  deepinfer::cli::install_signal_handling();
  return deepinfer::cli::run({words + (count > 0 ? 1 : 0), words + count});
}
