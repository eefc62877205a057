#include "checkpoint/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace deepinfer {
namespace {

constexpr std::size_t kShownProblems = 100;

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string count_text(std::int64_t count) {
  constexpr std::array<const char*, 4> kUnits{"", " K", " M", " B"};
  auto value = static_cast<double>(count);
  std::size_t unit = 0;
  while (value >= 1000.0 && unit + 1 < kUnits.size()) {
    value /= 1000.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{}", count) : fmt::format("{:.2f}{}", value, kUnits[unit]);
}

std::int64_t count_of(const DirectoryLayout& layout, ProblemKind kind) {
  return std::count_if(layout.problems.begin(), layout.problems.end(),
                       [kind](const Problem& problem) { return problem.kind == kind; });
}

std::int64_t layers_of_ratio(const ModelConfig& config, int ratio) {
  const auto begin = config.compress_ratios.begin();
  return std::count(begin, begin + config.num_hidden_layers, ratio);
}

template <typename Visit>
void for_each_kind(const DirectoryLayout& layout, const Visit& visit) {
  for (int number = 0; number < kProblemKindCount; ++number) {
    const auto kind = static_cast<ProblemKind>(number);
    std::vector<std::string> shown;
    for (const Problem& problem : layout.problems) {
      if (problem.kind == kind && shown.size() < kShownProblems) shown.push_back(problem.text);
    }
    visit(kind, count_of(layout, kind), shown);
  }
}

/// `missing shards` as a JSON key.
std::string json_key(std::string_view text) {
  std::string key(text);
  std::replace_if(key.begin(), key.end(), [](char c) { return c == ' ' || c == '-'; }, '_');
  return key;
}

}  // namespace

InspectReport inspect_checkpoint(const std::filesystem::path& directory) {
  if (!std::filesystem::is_directory(directory)) {
    fail_checkpoint(directory.string() + ": is not a directory, expected a checkpoint");
  }
  InspectReport report;
  report.directory = directory;
  report.config = load_config(directory / "config.json");
  const auto catalogue = weight_catalogue(report.config);
  report.layout = read_layout(directory, report.config, catalogue);
  report.expected_tensors = static_cast<std::int64_t>(catalogue.size());
  for (std::size_t i = 0; i < catalogue.size(); ++i) {
    report.expected_bytes += catalogue[i].bytes();
    if (!report.layout.places[i].found) continue;
    PartSummary& part = report.parts[static_cast<std::size_t>(catalogue[i].part)];
    for (PartSummary* summary : {&part, &report.total}) {
      ++summary->tensors;
      summary->parameters += catalogue[i].parameters();
      summary->bytes += catalogue[i].bytes();
    }
  }
  return report;
}

std::string inspect_text(const InspectReport& report) {
  const ModelConfig& config = report.config;
  std::string text = fmt::format("checkpoint  {}\n", report.directory.string());
  text += fmt::format(
      "model       deepseek_v41: {} layers ({} window, {} of ratio 2, {} of ratio 1), {} draft\n",
      config.num_hidden_layers, layers_of_ratio(config, 0), layers_of_ratio(config, 2),
      layers_of_ratio(config, 1), config.num_nextn_predict_layers);
  text += fmt::format(
      "sizes       hidden {}, {} heads of {}, window {}, top-k {}, vocabulary {}, context {}\n",
      config.hidden_size, config.num_attention_heads, config.head_dim, config.sliding_window,
      config.index_topk, config.vocab_size, config.max_position_embeddings);
  text += fmt::format("experts     {} routed, {} per token, {} shared, width {}\n",
                      config.n_routed_experts, config.num_experts_per_tok, config.n_shared_experts,
                      config.moe_intermediate_size);
  text += fmt::format("shards      {}\n\n", report.layout.shards.size());
  text += fmt::format("{:<18}{:>10}{:>14}{:>14}\n", "part", "tensors", "parameters", "bytes");
  const auto line = [&text](std::string_view name, const PartSummary& part) {
    text += fmt::format("{:<18}{:>10}{:>14}{:>14}\n", name, part.tensors,
                        count_text(part.parameters), bytes_text(part.bytes));
  };
  for (int number = 0; number < kPartCount; ++number) {
    const PartSummary& part = report.parts[static_cast<std::size_t>(number)];
    if (part.tensors > 0) line(to_string(static_cast<Part>(number)), part);
  }
  line("total", report.total);
  text += fmt::format("expected    {} tensors, {}\n", report.expected_tensors,
                      bytes_text(report.expected_bytes));
  if (report.layout.ignored > 0) {
    text += fmt::format("ignored     {} copies of embedding and head under mtp.\n",
                        report.layout.ignored);
  }
  if (report.complete())
    return text + "complete    every tensor is there with its shape and type\n";
  for_each_kind(report.layout, [&text](ProblemKind kind, std::int64_t count, const auto& shown) {
    if (count == 0) return;
    text += fmt::format("\n{} {}\n", count, to_string(kind));
    for (const std::string& problem : shown) text += "  " + problem + "\n";
    const auto rest = count - static_cast<std::int64_t>(shown.size());
    if (rest > 0) text += fmt::format("  and {} more\n", rest);
  });
  return text;
}

std::string inspect_json(const InspectReport& report) {
  using nlohmann::ordered_json;
  const auto summary = [](const PartSummary& part) {
    return ordered_json{
        {"tensors", part.tensors}, {"parameters", part.parameters}, {"bytes", part.bytes}};
  };
  const ModelConfig& config = report.config;
  ordered_json document;
  document["schema_version"] = 1;
  document["directory"] = report.directory.string();
  document["model_type"] = "deepseek_v41";
  document["complete"] = report.complete();
  document["layers"] = {{"total", config.num_hidden_layers},
                        {"ratio_0", layers_of_ratio(config, 0)},
                        {"ratio_2", layers_of_ratio(config, 2)},
                        {"ratio_1", layers_of_ratio(config, 1)},
                        {"draft", config.num_nextn_predict_layers}};
  document["max_position_embeddings"] = config.max_position_embeddings;
  document["vocab_size"] = config.vocab_size;
  document["shards"] = report.layout.shards.size();
  document["parts"] = ordered_json::object();
  for (int number = 0; number < kPartCount; ++number) {
    const PartSummary& part = report.parts[static_cast<std::size_t>(number)];
    if (part.tensors == 0) continue;
    document["parts"][json_key(to_string(static_cast<Part>(number)))] = summary(part);
  }
  document["total"] = summary(report.total);
  document["expected"] = {{"tensors", report.expected_tensors}, {"bytes", report.expected_bytes}};
  document["ignored_tensors"] = report.layout.ignored;
  document["unknown_config_keys"] = config.unknown_keys;
  document["problems"] = ordered_json::object();
  for_each_kind(report.layout, [&](ProblemKind kind, std::int64_t count, const auto& shown) {
    document["problems"][json_key(to_string(kind))] = {{"count", count}, {"first", shown}};
  });
  // File names may be any bytes; a report must not fail because of one.
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace deepinfer
