#include "command_line.h"

// The one place that includes CLI11: its header costs seconds to compile.
#include <CLI/CLI.hpp>

#include "base/error.h"

namespace deepinfer::cli {
namespace {

std::string flags_of(const OptionSpec& spec) {
  std::string flags = "--" + std::string(spec.name);
  if (!spec.aliases.empty()) flags += "," + std::string(spec.aliases);
  if (spec.negatable) flags += ",!--no-" + std::string(spec.name);
  return flags;
}

CLI::Option* add_option(CLI::App& app, const OptionSpec& spec) {
  if (spec.kind == OptionKind::kFlag) {
    return app.add_flag(flags_of(spec))->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  return app.add_option(flags_of(spec))
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

// CLI11 takes the next word for the value of `--name=`; an empty value is meant.
std::vector<std::string> with_empty_values_apart(const std::vector<std::string>& words) {
  std::vector<std::string> apart;
  bool options = true;
  for (const std::string& word : words) {
    if (word == "--") options = false;
    if (options && word.starts_with("--") && word.ends_with('=') && word.size() > 3) {
      apart.push_back(word.substr(0, word.size() - 1));
      apart.emplace_back();
    } else {
      apart.push_back(word);
    }
  }
  return apart;
}

[[noreturn]] void refuse_unknown(const Command& command, const std::string& word) {
  const std::string option = word.substr(0, word.find('='));
  std::vector<std::string> known = {"--help"};
  for (const OptionGroup& group : command.groups) {
    for (const OptionSpec& spec : group.options) {
      for (std::string& spelling : long_spellings(spec)) known.push_back(std::move(spelling));
    }
  }
  const std::string nearest = nearest_match(option, known);
  fail_argument("unknown option " + option +
                (nearest.empty() ? std::string() : "; did you mean " + nearest + "?"));
}

}  // namespace

ParsedCommandLine parse_command_line(const Command& command,
                                     const std::vector<std::string>& words) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  const CLI::Option* help = app.add_flag("-h,--help");
  std::vector<std::pair<const OptionSpec*, const CLI::Option*>> added;
  for (const OptionGroup& group : command.groups) {
    for (const OptionSpec& spec : group.options) {
      added.emplace_back(&spec, add_option(app, spec));
    }
  }
  std::vector<std::string> reversed = with_empty_values_apart(words);
  std::ranges::reverse(reversed);
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ArgumentMismatch& error) {
    // Its text names the option first: `--top-p: 1 required ... missing`.
    const std::string text = error.what();
    fail_argument("option " + text.substr(0, text.find(':')) + " needs a value");
  } catch (const CLI::ParseError& error) {
    fail_argument(error.what());
  }

  ParsedCommandLine parsed;
  parsed.help = help->count() > 0;
  if (parsed.help) return parsed;
  // What CLI11 has no option for, in order: arguments and words that only look like options.
  bool options_ended = false;
  for (const std::string& word : app.remaining()) {
    const bool looks_like_option = word.starts_with('-') && word != "-" && !options_ended;
    if (word == "--" && !options_ended) {
      options_ended = true;
    } else if (looks_like_option) {
      refuse_unknown(command, word);
    } else {
      parsed.arguments.push_back(word);
    }
  }
  for (const auto& [spec, option] : added) {
    if (option->count() == 0) continue;
    std::vector<std::string> values = option->results();
    if (!spec->repeatable) values = {values.back()};  // the last one counts, as everywhere
    parsed.values.insert_or_assign(
        std::string(spec->name),
        Setting{std::move(values), Origin::kCommandLine, "--" + std::string(spec->name)});
  }
  const int most = command.argument.most;
  if (most >= 0 && parsed.arguments.size() > static_cast<std::size_t>(most)) {
    fail_argument("unexpected argument '" + parsed.arguments[static_cast<std::size_t>(most)] + "'");
  }
  return parsed;
}

}  // namespace deepinfer::cli
