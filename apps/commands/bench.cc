#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/thread_pool.h"
#include "commands/commands.h"
#include "interrupt.h"
#include "json_output.h"
#include "model_choice.h"
#include "ops/cpu/bandwidth_probe.h"
#include "option_groups.h"
#include "output.h"

namespace deepinfer::cli {
namespace {

// Ids that look random and are the same in every run. The first ids are special tokens.
std::vector<Prompt> make_prompts(int count, int length, int vocab_size) {
  constexpr std::int32_t kFirstId = 3;
  std::uint64_t state = 0x9E3779B97F4A7C15U;
  std::vector<Prompt> prompts;
  for (int i = 0; i < count; ++i) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(length));
    for (std::int32_t& id : ids) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      id = kFirstId + static_cast<std::int32_t>((state >> 33) %
                                                static_cast<std::uint64_t>(vocab_size - kFirstId));
    }
    prompts.emplace_back(std::move(ids));
  }
  return prompts;
}

// Prefill lasts until every sequence has its first token; what comes after is decode.
struct Timing {
  double prefill_seconds = 0;
  double decode_seconds = 0;
  double first_token_seconds = 0;  // of the sequence that had to wait least
  std::uint64_t prefill_tokens = 0;
  std::uint64_t decode_tokens = 0;

  double prefill_rate() const { return static_cast<double>(prefill_tokens) / prefill_seconds; }
  double decode_rate() const {
    return decode_seconds > 0 ? static_cast<double>(decode_tokens) / decode_seconds : 0.0;
  }
};

Timing run_once(LLM& llm, const std::vector<Prompt>& prompts, int prompt_len, int output_len,
                const InterruptScope& interrupt) {
  SamplingParams params;
  params.temperature = 0;
  params.ignore_eos = true;
  params.max_tokens = output_len;
  Timing timing;
  std::size_t started = 0;
  std::uint64_t tokens = 0;
  double prefill_end = 0;
  std::uint64_t prefill_output = 0;
  CallOptions call;
  call.cancelled = [&] { return interrupt.interrupted(); };
  const double start = monotonic_seconds();
  call.on_token = [&](const StreamEvent& event) {
    ++tokens;
    if (event.output.num_output_tokens != 1) return;
    ++started;
    if (started == 1) timing.first_token_seconds = monotonic_seconds() - start;
    if (started == prompts.size()) {
      prefill_end = monotonic_seconds();
      prefill_output = tokens;
    }
  };
  const auto results = llm.generate(prompts, {params}, call);
  const double end = monotonic_seconds();
  if (interrupt.interrupted()) return timing;
  for (const CompletionResult& result : results) {
    if (result.failed()) fail_argument("the model refused the prompts: " + result.error);
  }
  if (started < prompts.size()) return timing;  // interrupted
  timing.prefill_seconds = prefill_end - start;
  timing.decode_seconds = end - prefill_end;
  timing.prefill_tokens = prompts.size() * static_cast<std::uint64_t>(prompt_len);
  timing.decode_tokens = tokens - prefill_output;
  return timing;
}

Json timing_value(const Timing& timing) {
  return {{"prefill_seconds", timing.prefill_seconds},
          {"prefill_tokens_per_second", timing.prefill_rate()},
          {"decode_seconds", timing.decode_seconds},
          {"decode_tokens_per_second", timing.decode_rate()},
          {"first_token_seconds", timing.first_token_seconds}};
}

int run_model(Options& options, Output& output) {
  const int prompt_len = static_cast<int>(options.integer("prompt-len"));
  const int output_len = static_cast<int>(options.integer("output-len"));
  const int batch = static_cast<int>(options.integer("batch"));
  EngineOptions engine = to_engine_options(options, find_model_directory(options));
  if (!options.has("max-model-len")) engine.max_model_len = prompt_len + output_len;
  if (!options.given("max-num-seqs")) engine.max_num_seqs = std::max(batch, 1);
  LLM llm(engine);
  const EngineInfo& info = llm.info();
  const auto prompts = make_prompts(batch, prompt_len, info.vocab_size);

  const InterruptScope interrupt;
  std::vector<Timing> runs;
  // The first run fills caches and memory maps and isn't counted.
  for (std::int64_t i = 0; i <= options.integer("repeat"); ++i) {
    const Timing timing = run_once(llm, prompts, prompt_len, output_len, interrupt);
    if (interrupt.interrupted()) return kInterruptedExit;
    if (i > 0) runs.push_back(timing);
  }
  const auto faster = [](auto rate) {
    return [rate](const Timing& a, const Timing& b) { return (a.*rate)() < (b.*rate)(); };
  };
  const double prefill =
      std::ranges::max_element(runs, faster(&Timing::prefill_rate))->prefill_rate();
  const double decode = std::ranges::max_element(runs, faster(&Timing::decode_rate))->decode_rate();

  if (options.flag("json")) {
    Json list = Json::array();
    for (const Timing& timing : runs) list.push_back(timing_value(timing));
    output.line(dump({{"schema_version", kSchemaVersion},
                      {"benchmark", "model"},
                      {"model", info.model_path},
                      {"device", info.device},
                      {"numerics", info.numerics},
                      {"threads", info.num_threads},
                      {"prompt_len", prompt_len},
                      {"output_len", output_len},
                      {"batch", batch},
                      {"prefill_tokens_per_second", prefill},
                      {"decode_tokens_per_second", decode},
                      {"runs", std::move(list)}}));
    return 0;
  }
  output.line(fmt::format("model     {}", info.model_path));
  output.line(fmt::format("engine    device {}, numerics {}, {} threads", info.device,
                          info.numerics, info.num_threads));
  output.line(fmt::format("load      {} sequences, {} tokens in, {} tokens out each, best of {}",
                          batch, prompt_len, output_len, runs.size()));
  output.line(fmt::format("prefill   {:>12.1f} tokens/s", prefill));
  output.line(fmt::format("decode    {:>12.1f} tokens/s, {:.1f} a sequence", decode,
                          decode / std::max(batch, 1)));
  return 0;
}

int run_kernels(Options& options, Output& output) {
  ThreadPool pool(options.has("threads") ? static_cast<int>(options.integer("threads"))
                                         : default_thread_count());
  const double bandwidth = probe_read_bandwidth(pool);
  const auto kernels = measure_gemv(pool, options.integer("batch"));
  if (options.flag("json")) {
    Json list = Json::array();
    for (const GemvMeasurement& kernel : kernels) {
      list.push_back({{"kernel", kernel.name},
                      {"tokens", kernel.tokens},
                      {"bytes", kernel.bytes},
                      {"seconds", kernel.seconds},
                      {"share_of_bandwidth", kernel.share}});
    }
    output.line(dump({{"schema_version", kSchemaVersion},
                      {"benchmark", "kernels"},
                      {"threads", pool.threads()},
                      {"read_bytes_per_second", bandwidth},
                      {"kernels", std::move(list)}}));
    return 0;
  }
  output.line(fmt::format("read bandwidth  {:.2f} GB/s with {} threads, probed in this process",
                          bandwidth / 1e9, pool.threads()));
  output.line(fmt::format("{:<28}{:>8}{:>12}{:>10}{:>22}", "product", "tokens", "us", "GB/s",
                          "share of bandwidth"));
  for (const GemvMeasurement& kernel : kernels) {
    output.line(fmt::format(
        "{:<28}{:>8}{:>12.1f}{:>10.2f}{:>21.0f}%", kernel.name, kernel.tokens, kernel.seconds * 1e6,
        static_cast<double>(kernel.bytes) / kernel.seconds / 1e9, 100 * kernel.share));
  }
  return 0;
}

int run(Options& options, Output& output) {
  const std::string what = options.arguments().empty() ? "model" : options.arguments().front();
  if (what == "model") return run_model(options, output);
  if (what == "kernels") return run_kernels(options, output);
  fail_argument("found '" + what + "', expected model or kernels");
}

}  // namespace

Command bench_command() {
  return {.name = "bench",
          .summary = "Throughput of the model, or of the kernels as a share of memory bandwidth.",
          .description = "  deepinfer bench -m tiny --batch 8\n  deepinfer bench kernels",
          .argument = {"WHAT", "model (the default) or kernels", 1},
          .groups = {{"Load",
                      {{.name = "prompt-len",
                        .kind = OptionKind::kInteger,
                        .value_name = "N",
                        .help = "tokens of each prompt",
                        .default_value = "512",
                        .minimum = 1,
                        .maximum = 1 << 24},
                       {.name = "output-len",
                        .kind = OptionKind::kInteger,
                        .value_name = "N",
                        .help = "tokens of each answer",
                        .default_value = "128",
                        .minimum = 2,
                        .maximum = 1 << 24},
                       {.name = "batch",
                        .kind = OptionKind::kInteger,
                        .value_name = "N",
                        .help = "sequences at once; for kernels, tokens of a product",
                        .default_value = "1",
                        .minimum = 1,
                        .maximum = 1 << 16},
                       {.name = "repeat",
                        .kind = OptionKind::kInteger,
                        .value_name = "N",
                        .help = "counted runs, after one that isn't",
                        .default_value = "3",
                        .minimum = 1,
                        .maximum = 1000},
                       {.name = "json",
                        .kind = OptionKind::kFlag,
                        .help = "a JSON object (docs/json.md)"}}},
                     model_options(),
                     engine_options(),
                     general_options()},
          .run = run};
}

}  // namespace deepinfer::cli
