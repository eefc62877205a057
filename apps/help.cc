#include "help.h"

#include <algorithm>

namespace deepinfer::cli {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kColumn = 32;

// Appends `text` in lines of at most kWidth, the following ones indented to `indent`.
void append_wrapped(std::string& out, std::string_view text, std::size_t indent) {
  std::size_t column = indent;
  bool first = true;
  for (const std::string& word : split(text, ' ')) {
    if (!first && column + 1 + word.size() > kWidth) {
      out.append("\n").append(indent, ' ');
      column = indent;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    first = false;
  }
  out += '\n';
}

void append_row(std::string& out, const std::string& left, std::string_view right) {
  out += "  " + left;
  if (left.size() + 4 > kColumn) {
    out.append("\n").append(kColumn, ' ');
  } else {
    out.append(kColumn - 2 - left.size(), ' ');
  }
  append_wrapped(out, right, kColumn);
}

std::string spellings(const OptionSpec& spec) {
  std::vector<std::string> all = split(spec.aliases, ',');
  all.push_back("--" + std::string(spec.name));
  // Short ones first, then the proper name, then its other long names.
  std::ranges::stable_sort(all, {}, [&](const std::string& spelling) {
    if (!spelling.starts_with("--")) return 0;
    return spelling.substr(2) == spec.name ? 1 : 2;
  });
  std::string text;
  for (const std::string& spelling : all) {
    if (!text.empty()) text += ", ";
    text += spelling;
  }
  if (spec.negatable) text.append(", --no-").append(spec.name);
  const std::string_view value = spec.kind == OptionKind::kChoice ? spec.choices : spec.value_name;
  if (!value.empty()) text.append(" ").append(value);
  return text;
}

std::string description(const OptionSpec& spec) {
  std::string text(spec.help);
  if (spec.repeatable) text += " (repeatable)";
  if (!spec.default_note.empty()) {
    text.append(" [default: ").append(spec.default_note).append("]");
  } else if (!spec.default_value.empty()) {
    text.append(" [default: ").append(spec.default_value).append("]");
  }
  if (!spec.variable.empty()) text.append(" [env: ").append(spec.variable).append("]");
  return text;
}

}  // namespace

std::string main_help(const std::vector<Command>& commands) {
  std::string out =
      "Usage: deepinfer [--version] [--help] COMMAND ...\n\n"
      "Inference for DeepSeek-V4.1-Flash checkpoints.\n\nCommands:\n";
  for (const Command& command : commands) {
    append_row(out, std::string(command.name), command.summary);
  }
  out += "\nOptions:\n";
  append_row(out, "-h, --help", "this text; after a command, that command's");
  append_row(out, "--version", "print the version");
  out +=
      "\nResults go to stdout; logs, warnings and progress to stderr. Exit codes: 0 success, 1 "
      "failed\n"
      "while running, 2 wrong usage, 3 checkpoint or tokenizer missing or unfit, 4 a request "
      "failed,\n"
      "130 interrupted, 141 closed pipe.\n";
  return out;
}

std::string command_help(const Command& command) {
  std::string out = "Usage: deepinfer ";
  out.append(command.name).append(" [OPTIONS]");
  if (command.argument.most != 0) {
    out.append(" [").append(command.argument.name).append("]");
    if (command.argument.most != 1) out += "...";
  }
  out += "\n\n";
  out += command.summary;
  out += "\n";
  if (!command.description.empty()) out.append("\n").append(command.description).append("\n");
  if (command.argument.most != 0) {
    out += "\nArguments:\n";
    append_row(out, std::string(command.argument.name), command.argument.help);
  }
  for (const OptionGroup& group : command.groups) {
    out.append("\n").append(group.title).append(":\n");
    for (const OptionSpec& spec : group.options) {
      append_row(out, spellings(spec), description(spec));
    }
  }
  out += "\nHelp:\n";
  append_row(out, "-h, --help", "this text");
  return out;
}

}  // namespace deepinfer::cli
