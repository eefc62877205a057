#include "evaluation.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "inputs.h"
#include "json_input.h"
#include "token_ids.h"

namespace deepinfer::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kDefaultMaxTokens = 256;

std::string_view strip(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Equality of values: the order of keys doesn't count.
bool same_value(const Json& a, const Json& b) {
  return nlohmann::json::parse(a.dump()) == nlohmann::json::parse(b.dump());
}

bool is_document(const Json& item) { return item.contains("text") || item.contains("token_ids"); }

void check_item(const Json& item, const std::string& place) {
  if (!item.is_object()) fail_argument(place + ": expected a JSON object");
  if (is_document(item)) {
    if (item.contains("text") && !item["text"].is_string()) {
      fail_argument(place + ": text: expected a string");
    }
    if (item.contains("token_ids")) {
      if (!item["token_ids"].is_array()) fail_argument(place + ": token_ids: expected an array");
      ids_of(item["token_ids"], place + ": token_ids");
    }
    return;
  }
  if (!item.contains("messages") || !item["messages"].is_array() || !item.contains("expected")) {
    fail_argument(place + ": expected `messages` and `expected`, or `text`");
  }
  const Json check = item.value("check", Json("exact"));
  if (check != "exact" && check != "json" && check != "tool_call") {
    fail_argument(place + ": check: found " + check.dump() + ", expected exact, json or tool_call");
  }
  if (check == "exact" && !item["expected"].is_string()) {
    fail_argument(place + ": expected: a string is needed for the check exact");
  }
  if (check == "tool_call" && !item["expected"].is_object()) {
    fail_argument(place + ": expected: an object is needed for the check tool_call");
  }
}

EvaluationFile read_file(const fs::path& path, std::size_t limit) {
  EvaluationFile file;
  file.name = path.stem().string();
  const std::string content = read_input(path.string(), "evaluation");
  std::string_view text = content;
  std::size_t number = 0;
  while (!text.empty() && (limit == 0 || file.items.size() < limit)) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (strip(line).empty()) continue;
    const std::string place = path.string() + ":" + std::to_string(number);
    std::string problem;
    Json item = parse_json(line, &problem);
    if (item.is_discarded()) fail_argument(place + ": " + problem);
    check_item(item, place);
    file.items.push_back(std::move(item));
  }
  file.is_prose = !file.items.empty() && is_document(file.items.front());
  for (const Json& item : file.items) {
    if (is_document(item) != file.is_prose) {
      fail_argument(path.string() + ": holds both documents and questions");
    }
  }
  return file;
}

// The Chat Completions request of an item.
Json request_of(const Json& item) {
  Json request = {
      {"messages", item["messages"]},
      {"thinking",
       {{"type", item.value("thinking", Json(false)) == Json(true) ? "enabled" : "disabled"}}},
      {"temperature", 0},
      {"max_tokens", item.value("max_tokens", Json(kDefaultMaxTokens))}};
  for (const char* key : {"tools", "reasoning_effort", "response_format"}) {
    if (item.contains(key) && !item[key].is_null()) request[key] = item[key];
  }
  return request;
}

// Distances below 64 are one range, then each power of two opens another.
void count_distance(const Json& item, bool correct, std::vector<DistanceScore>& scores) {
  const Json distance = item.value("distance", Json());
  if (!distance.is_number_unsigned()) return;
  const auto value = distance.get<std::uint64_t>();
  const auto low = static_cast<std::int64_t>(value < 64 ? 0 : std::bit_floor(value));
  auto found = std::ranges::lower_bound(scores, low, {}, &DistanceScore::low);
  if (found == scores.end() || found->low != low) {
    found = scores.insert(found, {low, low == 0 ? 64 : 2 * low, 0, 0});
  }
  ++found->items;
  found->correct += correct ? 1 : 0;
}

}  // namespace

std::vector<EvaluationFile> read_evaluation(const fs::path& folder, const std::string& only,
                                            std::size_t limit) {
  if (!fs::is_directory(folder)) {
    fail_argument(folder.string() + ": no such folder of evaluation data (--data)");
  }
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".jsonl") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<EvaluationFile> files;
  std::string names;
  for (const fs::path& path : paths) {
    names += (names.empty() ? "" : ", ") + path.stem().string();
    if (!only.empty() && path.stem() != only) continue;
    EvaluationFile file = read_file(path, limit);
    if (!file.items.empty()) files.push_back(std::move(file));
  }
  if (files.empty()) {
    fail_argument(only.empty() ? folder.string() + ": holds no evaluation data (*.jsonl)"
                               : "--task " + only + ": no such task; there are " + names);
  }
  return files;
}

bool is_correct(const Json& item, const ChatResult& answer) {
  if (answer.failed()) return false;
  const Json check = item.value("check", Json("exact"));
  const Json& expected = item["expected"];
  if (check == "json") {
    const Json content = parse_json(answer.content);
    return !content.is_discarded() && same_value(content, expected);
  }
  if (check == "tool_call") {
    if (answer.tool_calls.size() != 1) return false;
    const ToolCall& call = answer.tool_calls.front();
    const Json arguments = parse_json(call.arguments);
    return !arguments.is_discarded() && Json(call.name) == expected.value("name", Json()) &&
           same_value(arguments, expected.value("arguments", Json::object()));
  }
  return expected.is_string() && strip(answer.content) == strip(expected.get<std::string>());
}

TaskScore evaluate_task(LLM& llm, const EvaluationFile& file, const CallOptions& call,
                        const AnswerSink& sink) {
  std::vector<std::string> requests;
  for (const Json& item : file.items) requests.push_back(dump(request_of(item)));
  const std::vector<ChatResult> answers = llm.chat(requests, {}, call);
  TaskScore score;
  score.name = file.name;
  score.items = file.items.size();
  for (const ChatResult& answer : answers) {
    const bool correct = is_correct(file.items[answer.index], answer);
    score.correct += correct ? 1 : 0;
    score.failed += answer.failed() ? 1 : 0;
    count_distance(file.items[answer.index], correct, score.distances);
    if (sink) sink(answer.index, answer, correct);
  }
  return score;
}

ProseScore evaluate_prose(LLM& llm, const EvaluationFile& file, std::size_t tokens,
                          const CallOptions& call) {
  std::vector<Prompt> documents;
  const bool bos = llm.info().bos_token_id.has_value();
  for (const Json& item : file.items) {
    auto ids = item.contains("token_ids") ? ids_of(item["token_ids"], file.name)
                                          : llm.encode(item["text"].get<std::string>(), bos);
    if (ids.size() > tokens) ids.resize(tokens);
    documents.emplace_back(std::move(ids));
  }
  ProseScore score;
  score.name = file.name;
  score.documents = documents.size();
  for (const ScoreResult& result : llm.score(documents, 0, call)) {
    if (result.failed()) {
      ++score.failed;
      continue;
    }
    if (result.token_ids.empty()) continue;
    score.tokens += static_cast<std::int64_t>(result.token_ids.size()) - 1;
    score.total_logprob += result.total_logprob();
  }
  return score;
}

}  // namespace deepinfer::cli
