#include "api/environment.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>

#include "base/error.h"

namespace deepinfer {
namespace {

using enum EnvironmentSupport;
using enum EnvironmentType;

constexpr double kMax = 1e300;

// In the order of interface.md 3. Later parts of the project read what is kLater today; its values
// are checked now, so that a mistake doesn't wait for them.
constexpr EnvironmentVariable kVariables[] = {
    {"DEEPINFER_ACCELERATOR", kChoice, "cpu", "device that computes", kHonoured,
     "cpu|reference|nvidia|cuda|ascend|auto"},
    {"DEEPINFER_HF_MODEL_DIR", kPath, "", "checkpoint directory when no model is named", kHonoured},
    {"DEEPINFER_NUMERICS", kChoice, "", "where the model rounds; exact+cache on a CPU", kHonoured,
     "exact|exact+cache|production"},
    {"DEEPINFER_NUM_THREADS", kInt, "", "CPU threads; the physical cores when unset", kHonoured, "",
     1, 4096},
    {"DEEPINFER_LOG_LEVEL", kChoice, "", "messages on stderr; warn in the command", kHonoured,
     "debug|info|warn|error|off"},
    {"DEEPINFER_CONFIG", kPath, "", "default of --config", kHonoured},
    {"DEEPINFER_MAX_MEMORY", kBytes, "", "bytes of weights and caches; refuse to start above",
     kHonoured},
    {"DEEPINFER_DECODE_TOKEN_BLACKLIST", kIdRanges, "", "token ids that are never sampled",
     kHonoured},
    {"DEEPINFER_SAMPLER_FORCE_TOPK", kInt, "0", "softmax and sampling over the k best logits only",
     kHonoured, "", 0, 2147483647.0},
    {"DEEPINFER_BATCH_INVARIANT", kBool, "0", "batch-invariant kernels; always so on a CPU",
     kHonoured},
    {"DEEPINFER_CPP_LOG_LEVEL", kText, "info", "older name of the log level", kHonoured},
    {"DEEPINFER_ENGRAM_PAD_TOKEN", kInt, "2", "token id that stands for missing n-gram context",
     kLater, "", 0, 2147483647.0},
    {"DEEPINFER_USE_NEXTN_DECODE", kInt, "", "most draft tokens per step; 0 turns drafting off",
     kLater, "", 0, 64},
    {"DEEPINFER_ENABLE_MTP_VARLEN", kBool, "0", "confidence-scheduled verification", kLater},
    {"DEEPINFER_DFLASH_CONFIDENCE_HEAD_TEMPERATURE", kFloatList, "1.0",
     "temperature of the confidence head, one or one a draft", kLater},
    {"DEEPINFER_MAX_BACKTRACKING_TOKENS", kInt, "0", "positions a sequence can be rolled back",
     kLater, "", 0, 65536},
    {"DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE", kChoice, "off", "decoder replay of long prompts",
     kLater, "off|mask|compact"},
    {"DEEPINFER_YOCO_PREFILL_KEEP_TOKENS", kInt, "0", "queries kept at the end of a prompt", kLater,
     "", 0, 2147483647.0},
    {"DEEPINFER_ZERO_OVERHEAD_SCHEDULING", kBool, "1", "overlap scheduling with execution", kLater},
    {"DEEPINFER_PREFILL_ATTEMPT_INTERVAL", kInt, "70", "decode steps between prefill attempts",
     kLater, "", 1, 2147483647.0},
    {"DEEPINFER_PREFILL_ANY_ATTEMPT_INTERVAL", kInt, "100",
     "the same when any rank has prefill work", kLater, "", 1, 2147483647.0},
    {"DEEPINFER_PREFILL_MAX_SUM_SEQLEN_K", kInt, "", "cap of summed key lengths in a prefill batch",
     kLater, "", 1, kMax},
    {"DEEPINFER_INDEX_ATTN_MEMORY_LIMIT", kBytes, "10GiB", "scratch memory of index attention",
     kLater},
    {"DEEPINFER_COMPUTE_SUM_SMALLER_PROBS", kBool, "0", "fill sum_smaller_probs and nextn_logprobs",
     kLater},
    {"DEEPINFER_XGRAMMAR_DEBUG", kBool, "0", "grammar debug prints", kLater},
    {"DEEPINFER_XGRAMMAR_TIMEOUT", kInt, "20", "seconds for one grammar", kLater, "", 1, 86400},
    {"DEEPINFER_XGRAMMAR_DISABLE_CACHE", kBool, "0", "compile every grammar anew", kLater},
    {"DEEPINFER_XGRAMMAR_CACHE_LIMIT_BYTES", kInt, "10737418240",
     "bytes of compiled grammars kept; <= 0: no limit", kLater, "", -kMax, kMax},
    {"DEEPINFER_SO_BUILDER_CPUS", kInt, "4", "grammar threads", kLater, "", 1, 4096},
    {"DEEPINFER_NUM_STATE_SLOTS_RATIO", kFloat, "1.2", "state slots per sequence", kLater, "", 1,
     1000},
    {"DEEPINFER_DECODE_PERF_CACHE_DIR", kPath, "", "timing curve of variable-length verification",
     kLater},
    {"DEEPINFER_DECODE_PERF_CACHE_TTL_SEC", kInt, "3600", "its age limit", kLater, "", 0, kMax},
    {"DEEPINFER_LOGGING_INTERVAL_STEP", kInt, "100", "steps between statistics lines", kLater, "",
     1, kMax},
    {"DEEPINFER_ENGRAM_FORCE_GPU_STORAGE", kBool, "0", "Engram tables on the device",
     kAcceptedOnCpu},
    {"DEEPINFER_PREFILL_STORE_EXTRA_STATE", kBool, "0", "extra state for an external cache",
     kAcceptedOnCpu},
    {"DEEPINFER_PREFILL_STORE_EXTRA_STATE_SIZE", kInt, "128", "its size", kAcceptedOnCpu, "", 0,
     kMax},
    {"DEEPINFER_ENFORCE_EAGER", kBool, "0", "no device graphs", kAcceptedOnCpu},
    {"DEEPINFER_DFLASH_ENFORCE_EAGER", kBool, "0", "no device graphs for drafts", kAcceptedOnCpu},
    {"DEEPINFER_CUDAGRAPH_BATCH_SIZE_INTERVAL", kInt, "8", "batch sizes of device graphs",
     kAcceptedOnCpu, "", 1, kMax},
    {"DEEPINFER_DFLASH_CUDAGRAPH_BATCH_SIZE_INTERVAL", kInt, "8", "the same for drafts",
     kAcceptedOnCpu, "", 1, kMax},
    {"DEEPINFER_JIT_CACHE_DIR", kPath, "", "root of the kernel cache", kAcceptedOnCpu},
    {"DEEPINFER_RINGBUFFER_WARNING_INTERVAL", kInt, "60", "seconds between warnings", kMultiDevice,
     "", 1, kMax},
    {"DEEPINFER_NCCL_NUM_SMS", kInt, "32", "processors for communication", kMultiDevice, "", 0,
     kMax},
    {"DEEPINFER_USERBUFFER_COMM_SMS", kInt, "0", "processors for communication", kMultiDevice, "",
     0, kMax},
    {"DEEPINFER_GLOO_TIMEOUT", kInt, "14400", "seconds to wait for other ranks", kMultiDevice, "",
     1, kMax},
    {"DEEPINFER_REARRANGE_P2P_GROUPS", kInt, "1", "groups of an expert rearrangement", kMultiDevice,
     "", 1, kMax},
    {"DEEPINFER_NCCL_MEMORY_SAMPLE_INTERVAL_STEPS", kInt, "1000", "steps between memory samples",
     kMultiDevice, "", 1, kMax},
    {"DEEPINFER_OVERRIDE_NUM_EXTRA_EXPERTS", kInt, "0", "replicas of experts", kMultiDevice, "", 0,
     kMax},
    {"DEEPINFER_EXPERT_COUNT_WINDOW_SIZE", kInt, "100", "steps of expert statistics", kMultiDevice,
     "", 1, kMax},
    {"DEEPINFER_EXPERT_REARRANGEMENT_STEP_INTERVAL", kInt, "0",
     "steps between expert rearrangements", kMultiDevice, "", 0, kMax},
    {"DEEPINFER_REARRANGE_AFTER_PREFILL_IN_NORMAL_ENGINE", kBool, "0",
     "rearrange experts after prefill", kMultiDevice},
    {"DEEPINFER_MOE_LB_STAT_INTERVAL", kInt, "128", "steps between balance statistics",
     kMultiDevice, "", 1, kMax},
    {"DEEPINFER_FORCE_IMBALANCE_RATIO", kFloat, "0.0", "imbalance for load tests", kMultiDevice, "",
     0, kMax},
    {"DEEPINFER_FORCE_LOAD_BALANCE", kBool, "0", "perfect balance for load tests", kMultiDevice},
    {"DEEPINFER_SHOW_EPLB_DETAIL", kBool, "0", "print expert placement", kMultiDevice},
    {"DEEPINFER_PROFILE_HTTP_ENABLE", kBool, "0", "profiling over HTTP", kAcceptedOnCpu},
    {"DEEPINFER_PROFILE_HTTP_PORT_BASE", kInt, "6070", "its first port", kAcceptedOnCpu, "", 1,
     65535},
    {"DEEPINFER_TORCH_PROFILER_DIR", kPath, "/tmp", "where profiles go", kAcceptedOnCpu},
    {"DEEPINFER_PROFILE_TORCH_CUDA_MEMORY", kBool, "", "profile device memory", kAcceptedOnCpu},
    {"DEEPINFER_ENABLE_MEMORY_TRACING", kBool, "0", "trace allocations", kAcceptedOnCpu},
    {"DEEPINFER_DISABLE_SYNC_GUARD", kBool, "0", "allow device synchronisation", kAcceptedOnCpu},
    {"DEEPINFER_USE_MULTIMODAL_POOL", kBool, "0", "image workers", kAcceptedOnCpu},
    {"DEEPINFER_MULTIMODAL_POOL_SIZE_GB", kInt, "8", "memory of image workers", kAcceptedOnCpu, "",
     1, kMax},
    {"DEEPINFER_MULTI_MODAL_BUFFER_SIZE", kInt, "512", "images in flight", kAcceptedOnCpu, "", 1,
     kMax},
    {"DEEPINFER_MULTI_MODAL_WORKER_TIMEOUT", kFloat, "1800.0", "seconds for one image",
     kAcceptedOnCpu, "", 0, kMax},
    {"DEEPINFER_GC_INTERVAL_STEP", kInt, "1000", "garbage collection of the official package",
     kUnknown, "", -kMax, kMax},
    {"DEEPINFER_FUSED_SAMPLE_STRESS_TEST", kText, "", "kernel self-test of the official package",
     kUnknown},
    {"DEEPINFER_FUSED_SAMPLE_DETAIL_LOG", kText, "", "kernel self-test of the official package",
     kUnknown},
};

const EnvironmentVariable& find_variable(std::string_view name) {
  for (const EnvironmentVariable& variable : kVariables) {
    if (variable.name == name) return variable;
  }
  fail_internal("no variable " + std::string(name) + " in the table");
}

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

[[noreturn]] void refuse(std::string_view origin, std::string_view text,
                         const std::string& expected) {
  fail_argument(std::string(origin) + ": expected " + expected + ", got " + quoted(text));
}

template <typename T>
std::optional<T> parse_all(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

bool parse_bool(std::string_view text) {
  return !(text.empty() || text == "0" || text == "false" || text == "False");
}

std::int64_t parse_int(const EnvironmentVariable& variable, std::string_view text) {
  const auto value = parse_all<std::int64_t>(text);
  if (!value) refuse(variable.name, text, "an integer");
  if (static_cast<double>(*value) < variable.minimum) {
    refuse(variable.name, text,
           "at least " + std::to_string(static_cast<std::int64_t>(variable.minimum)));
  }
  if (static_cast<double>(*value) > variable.maximum) {
    refuse(variable.name, text,
           "at most " + std::to_string(static_cast<std::int64_t>(variable.maximum)));
  }
  return *value;
}

double parse_float(const EnvironmentVariable& variable, std::string_view text) {
  const auto value = parse_all<double>(text);
  if (!value || !(*value >= variable.minimum && *value <= variable.maximum)) {
    refuse(variable.name, text, "a number in range");
  }
  return *value;
}

template <typename Body>
void split(std::string_view text, char separator, Body&& body) {
  while (true) {
    const std::size_t end = text.find(separator);
    body(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

void check(const EnvironmentVariable& variable, std::string_view text) {
  switch (variable.type) {
    case kBool:
    case kText:
    case kPath:
      return;
    case kInt:
      parse_int(variable, text);
      return;
    case kFloat:
      parse_float(variable, text);
      return;
    case kFloatList:
      split(text, ',', [&](std::string_view item) { parse_float(variable, item); });
      return;
    case kChoice: {
      bool found = false;
      split(variable.choices, '|', [&](std::string_view choice) { found |= choice == text; });
      if (!found) refuse(variable.name, text, "one of " + std::string(variable.choices));
      return;
    }
    case kBytes:
      parse_bytes(text, variable.name);
      return;
    case kIdRanges:
      parse_id_ranges(text, variable.name);
      return;
  }
}

/// Empty text means the same as unset for everything but switches.
bool counts_as_unset(const EnvironmentVariable& variable, std::string_view text) {
  return text.empty() && variable.type != kBool;
}

}  // namespace

std::string_view to_string(EnvironmentSupport support) {
  switch (support) {
    case kHonoured:
      return "honoured";
    case kAcceptedOnCpu:
      return "accepted, no effect on a CPU";
    case kMultiDevice:
      return "for several devices";
    case kLater:
      return "accepted, no effect yet";
    case kUnknown:
      return "ignored";
  }
  return "";
}

std::span<const EnvironmentVariable> environment_variables() { return kVariables; }

std::uint64_t parse_bytes(std::string_view text, std::string_view origin) {
  constexpr std::array<std::pair<std::string_view, int>, 4> kUnits = {
      {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}}};
  std::string_view digits = text;
  int shift = 0;
  for (const auto& [unit, bits] : kUnits) {
    if (digits.ends_with(unit)) {
      digits.remove_suffix(unit.size());
      shift = bits;
      break;
    }
  }
  const auto value = parse_all<std::uint64_t>(digits);
  if (!value || *value > (std::numeric_limits<std::uint64_t>::max() >> shift)) {
    refuse(origin, text, "bytes, as 1073741824 or 12GiB");
  }
  return *value << shift;
}

std::vector<std::int32_t> parse_id_ranges(std::string_view text, std::string_view origin) {
  std::vector<std::int32_t> ids;
  if (text.empty()) return ids;
  // Ranges name ids of a vocabulary; a bound keeps a slip of the pen from filling the memory.
  constexpr std::int32_t kLargest = 1 << 24;
  split(text, ',', [&](std::string_view item) {
    const std::size_t dots = item.find("..");
    const auto first = parse_all<std::int32_t>(item.substr(0, dots));
    const auto last =
        dots == std::string_view::npos ? first : parse_all<std::int32_t>(item.substr(dots + 2));
    if (!first || !last || *first < 0 || *last < *first || *last > kLargest) {
      refuse(origin, text, "ids and inclusive ranges, as 0..3,7,10..12");
    }
    if (!ids.empty() && *first <= ids.back()) refuse(origin, text, "strictly increasing ids");
    for (std::int32_t id = *first; id <= *last; ++id) ids.push_back(id);
  });
  return ids;
}

Environment::Environment()
    : lookup_([](std::string_view name) -> std::optional<std::string> {
        const char* value = std::getenv(std::string(name).c_str());
        if (value == nullptr) return std::nullopt;
        return std::string(value);
      }) {}

std::optional<std::string> Environment::checked(std::string_view name) const {
  const EnvironmentVariable& variable = find_variable(name);
  std::optional<std::string> text = lookup_(name);
  if (!text || counts_as_unset(variable, *text)) return std::nullopt;
  check(variable, *text);
  return text;
}

std::optional<std::string> Environment::text(std::string_view name) const { return checked(name); }

std::optional<bool> Environment::boolean(std::string_view name) const {
  const auto text = checked(name);
  if (!text) return std::nullopt;
  return parse_bool(*text);
}

std::optional<std::int64_t> Environment::integer(std::string_view name) const {
  const auto text = checked(name);
  if (!text) return std::nullopt;
  return parse_int(find_variable(name), *text);
}

std::optional<double> Environment::number(std::string_view name) const {
  const auto text = checked(name);
  if (!text) return std::nullopt;
  return parse_float(find_variable(name), *text);
}

std::optional<std::uint64_t> Environment::bytes(std::string_view name) const {
  const auto text = checked(name);
  if (!text) return std::nullopt;
  return parse_bytes(*text, name);
}

std::vector<std::int32_t> Environment::id_ranges(std::string_view name) const {
  const auto text = checked(name);
  return text ? parse_id_ranges(*text, name) : std::vector<std::int32_t>();
}

std::vector<EnvironmentSetting> Environment::settings() const {
  std::vector<EnvironmentSetting> settings;
  for (const EnvironmentVariable& variable : kVariables) {
    EnvironmentSetting setting;
    setting.variable = &variable;
    setting.value = variable.default_text;
    const std::optional<std::string> text = lookup_(variable.name);
    if (text && !counts_as_unset(variable, *text)) {
      setting.value = *text;
      setting.from_environment = true;
      try {
        check(variable, *text);
      } catch (const Error& error) {
        setting.error = error.what();
      }
    }
    settings.push_back(std::move(setting));
  }
  return settings;
}

void Environment::validate() const {
  for (const EnvironmentVariable& variable : kVariables) {
    if (variable.support != kUnknown) checked(variable.name);
  }
}

}  // namespace deepinfer
