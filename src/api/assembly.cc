#include "api/assembly.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <variant>

#include "api/environment.h"
#include "base/error.h"
#include "base/log.h"
#include "checkpoint/lookup.h"
#include "text/engram_vocabulary.h"
#include "text/python_json.h"

namespace deepinfer {
namespace {

constexpr std::uint64_t kDefaultCacheBytes = 4ULL << 30;
/// Logits of a step: a vocabulary of 129,280 makes half a megabyte a row.
constexpr std::uint64_t kLogitsBytes = 128ULL << 20;

std::string gib(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / (1ULL << 30));
  return text;
}

ModelLocation locate(const EngineOptions& options) {
  LookupResult found = find_model(options.model, LookupEnvironment::of_process());
  if (const auto* missing = std::get_if<DownloadNeeded>(&found)) {
    fail_checkpoint("model " + missing->repository + ": " + missing->reason +
                    "; fetch it with: " + missing->command);
  }
  return std::get<ModelLocation>(std::move(found));
}

std::string choose_device(const EngineOptions& options, const Environment& environment) {
  std::string device =
      options.device ? *options.device : environment.text("DEEPINFER_ACCELERATOR").value_or("cpu");
  if (device == "cuda") device = "nvidia";
  if (device == "auto") device = "cpu";
  if (device == "nvidia" || device == "ascend") {
    fail(ErrorKind::kUnsupported, "device " + device + ": this build has no back end for it");
  }
  if (device != "cpu" && device != "reference") {
    fail_argument("device must be cpu, reference, nvidia, ascend or auto, got '" + device + "'");
  }
  return device;
}

NumericsProfile choose_numerics(const EngineOptions& options, const Environment& environment) {
  if (options.numerics) return parse_numerics_profile(*options.numerics, "numerics");
  if (const auto text = environment.text("DEEPINFER_NUMERICS")) {
    return parse_numerics_profile(*text, "DEEPINFER_NUMERICS");
  }
  return NumericsProfile::kExactCache;
}

int choose_tokens_per_block(const EngineOptions& options, const ModelConfig& config) {
  const int wanted = options.tokens_per_block;
  if (wanted == 0) {
    for (const int size : {128, 64, 32}) {
      if (config.sliding_window >= size) return size;
    }
    return 16;
  }
  if (wanted != 16 && wanted != 32 && wanted != 64 && wanted != 128) {
    fail_argument("tokens_per_block must be 16, 32, 64 or 128, got " + std::to_string(wanted));
  }
  return wanted;
}

/// Lengths and memory, decided together.
struct Limits {
  int max_model_len = 0;
  int max_num_batched_tokens = 0;
  std::int64_t blocks = 0;
  std::uint64_t cache_bytes = 0;
};

std::uint64_t cache_budget(const EngineOptions& options, const Environment& environment,
                           std::uint64_t weight_bytes) {
  std::uint64_t budget = options.cache_memory != 0 ? options.cache_memory : kDefaultCacheBytes;
  const auto limit =
      options.max_memory ? options.max_memory : environment.bytes("DEEPINFER_MAX_MEMORY");
  if (!limit) return budget;
  if (*limit <= weight_bytes) {
    fail(ErrorKind::kOutOfMemory,
         "max_memory is " + gib(*limit) + ", the weights alone are " + gib(weight_bytes));
  }
  return std::min(budget, *limit - weight_bytes);
}

Limits choose_limits(const EngineOptions& options, const ModelConfig& config,
                     const CacheLayout& layout, std::uint64_t budget) {
  Limits limits;
  const int longest = config.max_position_embeddings;
  if (options.max_num_seqs < 1) {
    fail_argument("max_num_seqs must be at least 1, got " + std::to_string(options.max_num_seqs));
  }
  if (options.max_model_len < 0 || options.max_model_len > longest) {
    fail_argument("max_model_len must be in 1 .. " + std::to_string(longest) +
                  ", the checkpoint's max_position_embeddings; got " +
                  std::to_string(options.max_model_len));
  }
  // Id 0 exists in memory and is never used (CacheStore).
  const std::uint64_t slots = (static_cast<std::uint64_t>(options.max_num_seqs) + 1) *
                              static_cast<std::uint64_t>(layout.slot_bytes());
  const auto block_bytes =
      std::max<std::uint64_t>(1, static_cast<std::uint64_t>(layout.block_bytes()));
  const std::uint64_t fitting = budget > slots ? (budget - slots) / block_bytes : 0;
  const std::int64_t usable =
      static_cast<std::int64_t>(std::min<std::uint64_t>(fitting, 1U << 30)) - 1;

  if (options.auto_max_model_len) {
    const std::int64_t tokens = std::max<std::int64_t>(usable, 0) * layout.tokens_per_block();
    limits.max_model_len = static_cast<int>(std::min<std::int64_t>(longest, tokens));
  } else {
    limits.max_model_len =
        options.max_model_len != 0 ? options.max_model_len : std::min(4096, longest);
  }
  const std::int64_t one = layout.blocks_for(std::max(limits.max_model_len, 1));
  if (usable < one || limits.max_model_len < 1) {
    fail(ErrorKind::kOutOfMemory,
         "the cache memory of " + gib(budget) + " is too small: " +
             std::to_string(options.max_num_seqs) + " sequences (max_num_seqs) need " + gib(slots) +
             " and one of max_model_len " + std::to_string(limits.max_model_len) + " needs " +
             gib(static_cast<std::uint64_t>(one + 1) * block_bytes) + " more");
  }
  limits.blocks = std::min(usable, one * options.max_num_seqs);
  limits.cache_bytes = slots + static_cast<std::uint64_t>(limits.blocks + 1) * block_bytes;

  limits.max_num_batched_tokens = options.max_num_batched_tokens != 0
                                      ? options.max_num_batched_tokens
                                      : std::max(2048, options.max_num_seqs);
  if (limits.max_num_batched_tokens < options.max_num_seqs) {
    fail_argument("max_num_batched_tokens must be at least max_num_seqs (" +
                  std::to_string(options.max_num_seqs) + "), got " +
                  std::to_string(options.max_num_batched_tokens));
  }
  // Deepinfer's rule: whole prompts must fit a step, or else none of the full length ever runs.
  if (!options.chunked_prefill && limits.max_num_batched_tokens < limits.max_model_len) {
    fail_argument("without chunked_prefill max_num_batched_tokens (" +
                  std::to_string(limits.max_num_batched_tokens) +
                  ") must be at least max_model_len (" + std::to_string(limits.max_model_len) +
                  ")");
  }
  return limits;
}

/// EOS ids of `generation_config.json` (one or a list), else the config's.
std::vector<TokenId> read_eos(const Checkpoint& checkpoint) {
  const std::filesystem::path path = checkpoint.directory() / "generation_config.json";
  std::ifstream file(path);
  if (!file) return {checkpoint.config().eos_token_id};
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (json_depth(text) > kMaxJsonDepth) {  // the parser would recurse as deep
    fail_checkpoint(path.string() + ": nested deeper than " + std::to_string(kMaxJsonDepth));
  }
  try {
    const auto json = nlohmann::json::parse(text);
    const auto found = json.find("eos_token_id");
    if (found == json.end() || found->is_null()) return {checkpoint.config().eos_token_id};
    const auto ids = found->is_array() ? found->get<std::vector<TokenId>>()
                                       : std::vector<TokenId>{found->get<TokenId>()};
    for (const TokenId id : ids) {
      if (id < 0 || id >= checkpoint.config().vocab_size) {
        fail_checkpoint(path.string() + ": eos_token_id " + std::to_string(id) +
                        " is outside the vocabulary");
      }
    }
    return ids;
  } catch (const nlohmann::json::exception& error) {
    fail_checkpoint(path.string() + ": " + error.what());
  }
}

std::vector<TokenId> read_blacklist(const Environment& environment, int vocab_size) {
  auto ids = environment.id_ranges("DEEPINFER_DECODE_TOKEN_BLACKLIST");
  if (!ids.empty() && ids.back() >= vocab_size) {
    fail_argument("DEEPINFER_DECODE_TOKEN_BLACKLIST: token id " + std::to_string(ids.back()) +
                  " is outside the vocabulary of " + std::to_string(vocab_size));
  }
  return ids;
}

}  // namespace

std::unique_ptr<Assembly> assemble(const EngineOptions& options) {
  const Environment environment;
  environment.validate();
  const std::string device = choose_device(options, environment);
  const NumericsProfile numerics = choose_numerics(options, environment);
  const int threads = options.num_threads ? *options.num_threads : default_thread_count();
  if (threads < 1 || threads > 4096) {
    fail_argument("num_threads must be in 1 .. 4096, got " + std::to_string(threads));
  }

  const ModelLocation location = locate(options);
  log_info(location.sentence);
  Checkpoint checkpoint = Checkpoint::open(location.directory);
  const std::filesystem::path tokenizer_path = options.tokenizer
                                                   ? std::filesystem::path(*options.tokenizer)
                                                   : checkpoint.tokenizer_directory();
  Tokenizer tokenizer =
      Tokenizer::load(tokenizer_path, checkpoint.config().tokenizer_compatibility);

  // NOLINTNEXTLINE(modernize-make-unique): make_unique can't initialise an aggregate in C++20 here.
  auto assembly = std::unique_ptr<Assembly>(
      new Assembly{std::move(checkpoint), std::move(tokenizer), {}, {}, {}, {}, {}, {}, {}});
  const ModelConfig& config = assembly->checkpoint.config();
  assembly->pool = std::make_unique<ThreadPool>(device == "reference" ? 1 : threads);
  assembly->ops = device == "reference" ? make_reference_ops() : make_cpu_ops(*assembly->pool);

  const CacheLayout layout(config,
                           CacheOptions{numerics, choose_tokens_per_block(options, config), 0});
  const auto weight_bytes = static_cast<std::uint64_t>(assembly->checkpoint.total_bytes());
  const Limits limits =
      choose_limits(options, config, layout, cache_budget(options, environment, weight_bytes));

  EngineConfig engine;
  engine.scheduler.max_num_seqs = options.max_num_seqs;
  engine.scheduler.max_num_batched_tokens = limits.max_num_batched_tokens;
  engine.scheduler.max_logits_rows = static_cast<std::int32_t>(std::clamp<std::uint64_t>(
      kLogitsBytes / (sizeof(float) * static_cast<std::uint64_t>(config.vocab_size)),
      static_cast<std::uint64_t>(options.max_num_seqs),
      static_cast<std::uint64_t>(limits.max_num_batched_tokens)));
  engine.scheduler.max_model_len = limits.max_model_len;
  engine.scheduler.tokens_per_block = layout.tokens_per_block();
  engine.scheduler.num_blocks = static_cast<std::int32_t>(limits.blocks);
  engine.scheduler.chunked_prefill = options.chunked_prefill;
  engine.eos = read_eos(assembly->checkpoint);
  engine.blacklist = read_blacklist(environment, config.vocab_size);
  engine.force_topk = environment.integer("DEEPINFER_SAMPLER_FORCE_TOPK").value_or(0);

  assembly->weights = load_weights(assembly->checkpoint);
  assembly->caches = std::make_unique<CacheStore>(
      config, layout, static_cast<std::int32_t>(limits.blocks), options.max_num_seqs);
  std::vector<std::int32_t> token_map;
  if (!config.engram_layer_ids.empty()) token_map = engram_token_map(assembly->tokenizer);
  assembly->model = std::make_unique<Model>(config, assembly->weights, layout, *assembly->ops,
                                            std::move(token_map),
                                            ModelOptions{numerics, limits.max_num_batched_tokens});
  assembly->engine = std::make_unique<Engine>(*assembly->model, *assembly->caches,
                                              &assembly->tokenizer, assembly->pool.get(), engine);

  EngineInfo& info = assembly->info;
  info.model_path = location.directory.string();
  info.model_origin = location.sentence;
  info.tokenizer_path = tokenizer_path.string();
  info.device = device;
  info.numerics = std::string(to_string(numerics));
  info.num_threads = assembly->pool->threads();
  info.max_model_len = limits.max_model_len;
  info.max_position_embeddings = config.max_position_embeddings;
  info.max_num_seqs = options.max_num_seqs;
  info.max_num_batched_tokens = limits.max_num_batched_tokens;
  info.tokens_per_block = layout.tokens_per_block();
  info.cache_blocks = limits.blocks;
  info.cache_bytes = static_cast<std::int64_t>(limits.cache_bytes);
  info.weight_bytes = static_cast<std::int64_t>(weight_bytes);
  info.vocab_size = config.vocab_size;
  info.bos_token_id = assembly->tokenizer.bos_id();
  info.eos_token_ids = engine.eos;
  return assembly;
}

}  // namespace deepinfer
