#include "deepinfer/llm.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "api/llm_impl.h"
#include "api/session.h"
#include "base/error.h"
#include "base/philox.h"

namespace deepinfer {
namespace {

/// The one of `values` that belongs to `index`: values are none, one for all, or one each.
template <typename T>
const T& pick(const std::vector<T>& values, std::size_t index, const T& fallback) {
  if (values.empty()) return fallback;
  return values.size() == 1 ? values[0] : values[index];
}

void check_count(std::size_t values, std::size_t prompts) {
  if (values > 1 && values != prompts) {
    fail_argument("there are " + std::to_string(prompts) + " prompts and " +
                  std::to_string(values) + " sampling parameters: give none, one, or one each");
  }
}

}  // namespace

// --- LLM::Impl
// ------------------------------------------------------------------------------------

std::uint64_t LLM::Impl::next_seed() {
  if (!seed) return random();
  // Counter word 1 = 2 keeps this apart from the streams of the draws.
  const std::uint64_t number = engine().next_request();
  const auto words = philox4x32_10(
      {static_cast<std::uint32_t>(number), 2, static_cast<std::uint32_t>(number >> 32), 0},
      {static_cast<std::uint32_t>(*seed), static_cast<std::uint32_t>(*seed >> 32)});
  return words[0] | static_cast<std::uint64_t>(words[1]) << 32;
}

std::vector<TokenId> LLM::Impl::encode_prompt(const Prompt& prompt,
                                              std::optional<bool> add_bos) const {
  if (const auto* ids = prompt.ids()) return *ids;
  EncodeOptions options;
  options.parse_special = true;
  options.add_bos = add_bos.value_or(tokenizer().bos_id().has_value());
  return tokenizer().encode(*prompt.text(), options);
}

std::vector<LLM::Impl::EncodedPrompt> LLM::Impl::encode_all(const std::vector<Prompt>& prompts,
                                                            const CallOptions& call) {
  std::vector<EncodedPrompt> encoded(prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    try {
      encoded[i].ids = encode_prompt(prompts[i], call.add_bos);
      encoded[i].refusal = engine().check_prompt(encoded[i].ids);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInvalidArgument) throw;
      encoded[i].refusal = Refusal{finish_reason::kError, error.what()};
    }
    if (call.strict && encoded[i].refusal) {
      fail_argument("prompt " + std::to_string(i) + ": " + encoded[i].refusal->message);
    }
  }
  return encoded;
}

std::vector<std::vector<TokenId>> LLM::Impl::encode_bad_words(
    const std::vector<std::string>& words) const {
  std::vector<std::vector<TokenId>> sequences;
  for (const std::string& word : words) {
    for (const std::string& text : {word, " " + word}) {
      auto ids = tokenizer().encode(text, EncodeOptions{false, false});
      if (std::find(sequences.begin(), sequences.end(), ids) == sequences.end()) {
        sequences.push_back(std::move(ids));
      }
    }
  }
  return sequences;
}

std::vector<CompletionResult> LLM::Impl::generate(const std::vector<Prompt>& prompts,
                                                  const std::vector<SamplingParams>& params,
                                                  const CallOptions& call) {
  check_count(params.size(), prompts.size());
  for (const SamplingParams& sampling : params) engine().validate(sampling);
  const std::vector<EncodedPrompt> encoded = encode_all(prompts, call);

  struct Place {
    std::size_t index;
    int sample;
  };
  std::map<RequestId, Place> places;
  std::vector<std::vector<CompletionResult>> results(prompts.size());
  const auto keep = [&](CompletionResult&& result, Place place) {
    result.index = place.index;
    result.sample = place.sample;
    // A stream must end: what fails before or between its tokens has no last token to say so.
    const bool aborted = result.finish_reason == finish_reason::kAbort;
    if (call.on_token && result.failed() && (result.token_ids.empty() || !aborted)) {
      StreamEvent event;
      event.index = place.index;
      event.sample = place.sample;
      event.output = to_request_outputs(result).back();
      if (!result.token_ids.empty()) event.output.token_id = 0;  // not a token again
      results[place.index][static_cast<std::size_t>(place.sample)] = std::move(result);
      call.on_token(event);
      return;
    }
    results[place.index][static_cast<std::size_t>(place.sample)] = std::move(result);
  };
  Session::Handlers handlers;
  if (call.on_token) {
    handlers.token = [&](RequestId id, StreamEvent&& event) {
      const Place place = places.at(id);
      event.index = place.index;
      event.sample = place.sample;
      call.on_token(event);
    };
  }
  handlers.finished = [&](RequestId id, CompletionResult&& result) {
    keep(std::move(result), places.at(id));
  };
  Session session(engine(), call, std::move(handlers));

  static const SamplingParams kDefaults;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const SamplingParams& sampling = pick(params, i, kDefaults);
    const std::uint64_t first_seed = sampling.seq_seed ? *sampling.seq_seed : next_seed();
    // A prompt that can't run fails once, not n times.
    const int samples = encoded[i].refusal ? 1 : sampling.n;
    results[i].resize(static_cast<std::size_t>(samples));
    if (encoded[i].refusal && encoded[i].ids.empty()) {  // not even ids
      CompletionResult result;
      result.finish_reason = encoded[i].refusal->finish_reason;
      result.error = encoded[i].refusal->message;
      result.max_num_batched_tokens = assembly->info.max_num_batched_tokens;
      session.count_finished();
      keep(std::move(result), Place{i, 0});
      continue;
    }
    const auto bad_words = encode_bad_words(sampling.bad_words);
    for (int sample = 0; sample < samples; ++sample) {
      EngineRequest request;
      request.prompt = encoded[i].ids;
      request.sampling = sampling;
      request.seed = first_seed + static_cast<std::uint64_t>(sample);
      request.bad_words = bad_words;
      places.emplace(session.submit(std::move(request)), Place{i, sample});
    }
  }
  session.run();

  std::vector<CompletionResult> flat;
  for (auto& group : results) {
    std::move(group.begin(), group.end(), std::back_inserter(flat));
  }
  return flat;
}

std::vector<ScoreResult> LLM::Impl::score(const std::vector<Prompt>& prompts, int top_logprobs,
                                          const CallOptions& call) {
  if (top_logprobs < 0 || top_logprobs > 1000) {
    fail_argument("top_logprobs must be in 0 .. 1000, got " + std::to_string(top_logprobs));
  }
  std::vector<EncodedPrompt> encoded = encode_all(prompts, call);
  std::map<RequestId, std::size_t> places;
  std::vector<ScoreResult> results(prompts.size());
  Session::Handlers handlers;
  handlers.scored = [&](RequestId id, ScoreResult&& result) {
    const std::size_t index = places.at(id);
    results[index] = std::move(result);
    results[index].index = index;
  };
  Session session(engine(), call, std::move(handlers));
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (encoded[i].refusal) {
      results[i] = refused_score(EngineRequest{encoded[i].ids, {}, 0, {}, {}}, *encoded[i].refusal);
      results[i].index = i;
      session.count_finished();
      continue;
    }
    EngineRequest request;
    request.prompt = std::move(encoded[i].ids);
    request.score_top_logprobs = top_logprobs;
    places.emplace(session.submit(std::move(request)), i);
  }
  session.run();
  return results;
}

// --- LLM
// ------------------------------------------------------------------------------------------

LLM::LLM(const EngineOptions& options) : impl_(std::make_unique<Impl>(options)) {}
LLM::~LLM() = default;
LLM::LLM(LLM&&) noexcept = default;
LLM& LLM::operator=(LLM&&) noexcept = default;

std::vector<CompletionResult> LLM::generate(const std::vector<Prompt>& prompts,
                                            const std::vector<SamplingParams>& params,
                                            const CallOptions& call) {
  const std::lock_guard lock(impl_->mutex);
  return impl_->generate(prompts, params, call);
}

std::vector<ChatResult> LLM::chat(const std::vector<std::string>& requests_json,
                                  const ChatOptions& chat, const CallOptions& call) {
  const std::lock_guard lock(impl_->mutex);
  return impl_->chat(requests_json, chat, call);
}

std::vector<ScoreResult> LLM::score(const std::vector<Prompt>& prompts, int top_logprobs,
                                    const CallOptions& call) {
  const std::lock_guard lock(impl_->mutex);
  return impl_->score(prompts, top_logprobs, call);
}

std::vector<std::int32_t> LLM::encode(std::string_view text, std::optional<bool> add_bos,
                                      bool special) const {
  const Tokenizer& tokenizer = impl_->tokenizer();
  EncodeOptions options;
  options.parse_special = special;
  options.add_bos = add_bos.value_or(tokenizer.bos_id().has_value());
  return tokenizer.encode(text, options);
}

std::string LLM::decode(const std::vector<std::int32_t>& ids, bool skip_special) const {
  return impl_->tokenizer().decode(ids, skip_special);
}

const EngineInfo& LLM::info() const { return impl_->assembly->info; }

EngineStats LLM::stats() const {
  const std::lock_guard lock(impl_->mutex);
  const EngineCounters counters = impl_->engine().counters();
  EngineStats stats;
  stats.steps = counters.steps;
  stats.requests = counters.requests;
  stats.prompt_tokens = counters.prompt_tokens;
  stats.generated_tokens = counters.generated_tokens;
  stats.preemptions = counters.preemptions;
  stats.forward_seconds = counters.forward_seconds;
  stats.sample_seconds = counters.sample_seconds;
  stats.total_seconds = counters.total_seconds;
  return stats;
}

}  // namespace deepinfer
