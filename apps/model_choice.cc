#include "model_choice.h"

#include <spawn.h>
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "checkpoint/config.h"
#include "checkpoint/lookup.h"
#include "output.h"

extern char** environ;

namespace deepinfer::cli {
namespace {

namespace fs = std::filesystem;

// DEEPINFER_PYTHON, the environment that build.sh makes beside the source, else python3.
std::string find_python(const LookupEnvironment& environment) {
  if (auto python = environment.variable("DEEPINFER_PYTHON"); python && !python->empty()) {
    return *python;
  }
  const fs::path beside = environment.source_models_directory.parent_path() / ".venv/bin/python";
  return fs::exists(beside) ? beside.string() : "python3";
}

// What runs the downloader: the file itself where it can be found, so that neither PYTHONPATH nor
// the compiled module is needed, else the installed package.
std::vector<std::string> download_words(const LookupEnvironment& environment,
                                        const DownloadNeeded& needed) {
  std::vector<std::string> words = {find_python(environment)};
  std::vector<fs::path> packages;
  if (auto package = environment.variable("DEEPINFER_PACKAGE_DIR")) packages.emplace_back(*package);
  packages.push_back(environment.source_models_directory.parent_path() / "python" / "deepinfer");
  bool found = false;
  for (const fs::path& package : packages) {
    if (!fs::exists(package / "hub.py")) continue;
    // -P: modules beside the file must not hide those of Python's library.
    words.insert(words.end(), {"-P", (package / "hub.py").string()});
    found = true;
    break;
  }
  if (!found) words.insert(words.end(), {"-m", "deepinfer.hub"});
  words.insert(words.end(), {"download", needed.repository});
  if (needed.revision != "main") words.insert(words.end(), {"--revision", needed.revision});
  return words;
}

// Runs a program with our stderr and no stdout of ours, which is for results. Its exit code.
int run_program(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, 2, 1);
  pid_t child = 0;
  const int failure =
      posix_spawnp(&child, words.front().c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) {
    fail_io(words.front() + ": " + std::strerror(failure) +
            " (DEEPINFER_PYTHON names another interpreter)");
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void download(const LookupEnvironment& environment, const DownloadNeeded& needed) {
  tell(needed.repository + ": " + needed.reason + "; downloading it");
  const int code = run_program(download_words(environment, needed));
  if (code == 0) return;
  const std::string message =
      "the download of " + needed.repository + " failed; by hand: " + needed.command;
  // 3: not to be had (offline, no such repository); anything else may work the next time.
  fail(code == 3 ? ErrorKind::kCheckpoint : ErrorKind::kIo, message);
}

}  // namespace

std::string find_model_directory(const Options& options) {
  const LookupEnvironment environment = LookupEnvironment::of_process();
  const auto name = options.optional_text("model");
  LookupResult result = find_model(name, environment);
  if (const auto* needed = std::get_if<DownloadNeeded>(&result)) {
    if (options.flag("no-download") || hub_offline(environment)) {
      fail_checkpoint(needed->repository + ": " + needed->reason +
                      ", and downloads are forbidden (" +
                      (options.flag("no-download") ? "--no-download" : "HF_HUB_OFFLINE") +
                      "); to fetch it: " + needed->command);
    }
    download(environment, *needed);
    result = find_model(name, environment);
    if (const auto* still = std::get_if<DownloadNeeded>(&result)) {
      fail_checkpoint(still->repository + ": downloaded, but " + still->reason);
    }
  }
  const auto& location = std::get<ModelLocation>(result);
  if (!options.flag("quiet")) tell(location.sentence);
  return location.directory.string();
}

Tokenizer load_tokenizer(const Options& options) {
  const bool named = options.has("tokenizer");
  const fs::path directory = named ? options.text("tokenizer") : find_model_directory(options);
  // A tokenizer directory may come without a model; the policy is then the usual one.
  const fs::path config = directory / "config.json";
  if (named && !fs::exists(config)) return Tokenizer::load(directory);
  return Tokenizer::load(directory, load_config(config).tokenizer_compatibility);
}

}  // namespace deepinfer::cli
