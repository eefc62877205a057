#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "deepinfer/llm.h"
#include "json_output.h"

// Small evaluations over JSONL files: tasks whose answers can be checked, and held-out text.

namespace deepinfer::cli {

/// The lines of one file.
struct EvaluationFile {
  std::string name;  ///< the file's name without `.jsonl`
  std::vector<Json> items;
  bool is_prose = false;  ///< documents to score, instead of questions to answer
};

/// Reads every `*.jsonl` of a folder in the order of the names, of each at most `limit` lines (0:
/// all), and only those called `only` unless that is empty. Throws Error(kInvalidArgument) naming
/// file and line for what isn't an item, and when nothing is left.
std::vector<EvaluationFile> read_evaluation(const std::filesystem::path& folder,
                                            const std::string& only, std::size_t limit);

/// The outcome of the items whose `distance` lies in [low, high).
struct DistanceScore {
  std::int64_t low = 0;
  std::int64_t high = 0;
  std::size_t items = 0;
  std::size_t correct = 0;
};

struct TaskScore {
  std::string name;
  std::size_t items = 0;
  std::size_t correct = 0;
  std::size_t failed = 0;                ///< requests that the engine refused; wrong answers too
  std::vector<DistanceScore> distances;  ///< doubling ranges, for items that tell their distance

  double accuracy() const {
    return items > 0 ? static_cast<double>(correct) / static_cast<double>(items) : 0.0;
  }
};

struct ProseScore {
  std::string name;
  std::size_t documents = 0;
  std::size_t failed = 0;
  std::int64_t tokens = 0;   ///< predicted ones
  double total_logprob = 0;  ///< natural logarithm

  double loss() const { return tokens > 0 ? -total_logprob / static_cast<double>(tokens) : 0.0; }
};

/// Called with each item's outcome: its number in the file, the answer and whether it is right.
using AnswerSink = std::function<void(std::size_t item, const ChatResult& answer, bool correct)>;

/// Asks all questions of a file, greedily and at once.
TaskScore evaluate_task(LLM& llm, const EvaluationFile& file, const CallOptions& call,
                        const AnswerSink& sink);

/// The mean loss per token of a file's documents: of each the first `tokens` ones, BOS included,
/// all but the first of which are predicted.
ProseScore evaluate_prose(LLM& llm, const EvaluationFile& file, std::size_t tokens,
                          const CallOptions& call);

/// Whether an answer is what the item expects: `check` is `exact` (the content without blanks
/// around it), `json` (equal values) or `tool_call` (one call, equal name and arguments).
bool is_correct(const Json& item, const ChatResult& answer);

}  // namespace deepinfer::cli
