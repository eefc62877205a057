#include "engine/engine.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace deepinfer {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Engine::Engine(Model& model, CacheStore& caches, const Tokenizer* tokenizer, ThreadPool* pool,
               const EngineConfig& config)
    : vocab_(model.config().vocab_size),
      chunked_prefill_(config.scheduler.chunked_prefill),
      executor_(model, caches, pool, config.scheduler.max_logits_rows),
      scheduler_(config.scheduler) {
  context_.tokenizer = tokenizer;
  context_.eos = config.eos;
  context_.blacklist = config.blacklist;
  context_.force_topk = config.force_topk;
  context_.max_model_len = config.scheduler.max_model_len;
  context_.max_num_batched_tokens = config.scheduler.max_num_batched_tokens;
  if (config.scheduler.max_num_batched_tokens > model.max_tokens()) {
    fail_internal("the model was made for smaller steps than max_num_batched_tokens");
  }
}

void Engine::validate(const SamplingParams& sampling) const {
  sampling.validate();
  const auto check = [&](const char* field, TokenId token) {
    if (token >= vocab_) {
      fail_argument(std::string(field) + ": token id " + std::to_string(token) +
                    " is outside the vocabulary of " + std::to_string(vocab_));
    }
  };
  for (const auto& [token, bias] : sampling.logit_bias) check("logit_bias", token);
  for (const TokenId token : sampling.stop_token_ids) check("stop_token_ids", token);
  for (const TokenId token : sampling.golden_token_ids) check("golden_token_ids", token);
  if (sampling.allowed_token_ids) {
    for (const TokenId token : *sampling.allowed_token_ids) check("allowed_token_ids", token);
  }
}

std::optional<Refusal> Engine::check_prompt(const std::vector<TokenId>& prompt) const {
  if (prompt.empty()) return Refusal{finish_reason::kError, "the prompt is empty"};
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] < 0 || prompt[i] >= vocab_) {
      return Refusal{finish_reason::kInvalidToken,
                     "token id " + std::to_string(prompt[i]) + " at position " + std::to_string(i) +
                         " is outside the vocabulary of " + std::to_string(vocab_)};
    }
  }
  const int limit = chunked_prefill_
                        ? context_.max_model_len
                        : std::min(context_.max_model_len, context_.max_num_batched_tokens);
  if (static_cast<std::int64_t>(prompt.size()) > limit) {
    return Refusal{finish_reason::kPromptTooLong,
                   "the prompt has " + std::to_string(prompt.size()) + " tokens, the limit is " +
                       std::to_string(limit)};
  }
  return std::nullopt;
}

RequestId Engine::submit(EngineRequest request) {
  if (!poisoned_.empty()) fail_internal("the engine failed earlier: " + poisoned_);
  validate(request.sampling);
  const RequestId id{next_id_++};
  ++counters_.requests;
  if (auto refusal = check_prompt(request.prompt)) {
    refused_.emplace(id, std::pair(std::move(request), std::move(*refusal)));
    return id;
  }
  auto state = std::make_unique<RequestState>(id, std::move(request), context_);
  const SeqId sequence = scheduler_.add({state->prompt_len(), state->wants_prompt_logprobs()});
  ids_.emplace(id, sequence);
  requests_.emplace(sequence, std::move(state));
  return id;
}

void Engine::step(EngineSink& sink) {
  const Clock::time_point start = Clock::now();
  while (!refused_.empty()) deliver_refused(refused_.begin()->first, sink);
  const StepPlan& plan = scheduler_.plan();
  if (plan.empty()) return;
  std::vector<Event> events;
  try {
    const Clock::time_point forward = Clock::now();
    executor_.forward(plan, [this](SeqId id) { return requests_.at(id)->tokens(); });
    counters_.forward_seconds += seconds_since(forward);
    const Clock::time_point sample = Clock::now();
    make_jobs(plan);
    executor_.sample(jobs_);
    counters_.sample_seconds += seconds_since(sample);
    collect(plan, events);
  } catch (const std::exception& error) {
    scheduler_.rollback();
    fail_all(error.what(), sink);
    return;
  }
  scheduler_.commit(outcomes_);
  ++counters_.steps;
  counters_.total_seconds += seconds_since(start);
  deliver(events, sink);
}

/// One job for each wanted row: scores of the prompt's tokens first, then the draw.
void Engine::make_jobs(const StepPlan& plan) {
  jobs_.clear();
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const RowGroup& group = plan.groups[g];
    RequestState& state = *requests_.at(group.sequence);
    const std::int32_t first_wanted = group.start + group.rows - group.logits_rows;
    for (std::int32_t i = 0; i < group.logits_rows; ++i) {
      // The row at position p predicts token p + 1.
      const std::int32_t next = first_wanted + i + 1;
      SampleJob job;
      job.group = g;
      job.logits_row = executor_.first_logits_row(g) + i;
      if (next < state.prompt_len()) {
        // A prompt that is computed again after preemption has some of its scores already.
        if (!state.wants_prompt_logprobs() || next < state.next_scored_position()) continue;
        job.score = true;
        job.target = state.tokens()[static_cast<std::size_t>(next)];
        job.target_position = next;
        job.row.top_logprobs = state.score_top();
      } else if (next < static_cast<std::int32_t>(state.tokens().size()) || state.scoring()) {
        continue;  // an output token that is known, or the end of a scored sequence
      } else {
        job.row = state.sample_row();
      }
      jobs_.push_back(std::move(job));
    }
  }
}

/// Turns the step's results into outcomes for the scheduler and events for the sink.
void Engine::collect(const StepPlan& plan, std::vector<Event>& events) {
  outcomes_.assign(plan.groups.size(), GroupOutcome{});
  for (SampleJob& job : jobs_) {
    const SeqId sequence = plan.groups[job.group].sequence;
    RequestState& state = *requests_.at(sequence);
    if (state.finished()) continue;  // an earlier row of it failed
    if (!job.error.empty()) {
      state.finish(finish_reason::kError, job.error);
    } else if (job.score) {
      state.add_prompt_logprob(std::move(job.result));
    } else {
      Event event;
      event.id = state.id();
      event.token = state.append(std::move(job.result));
      events.push_back(std::move(event));
      outcomes_[job.group].appended = true;
      ++counters_.generated_tokens;
    }
  }
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const RowGroup& group = plan.groups[g];
    RequestState& state = *requests_.at(group.sequence);
    counters_.prompt_tokens += static_cast<std::uint64_t>(
        std::max(0, std::min(group.start + group.rows, state.prompt_len()) - group.start));
    if (!state.finished() && state.scoring() && group.completes) state.finish("scored", "");
    if (!state.finished()) continue;
    outcomes_[g].finished = true;
    Event event;
    event.id = state.id();
    event.ended = std::move(requests_.at(group.sequence));
    events.push_back(std::move(event));
    requests_.erase(group.sequence);
    ids_.erase(events.back().id);
  }
}

void Engine::deliver_end(RequestState& state, EngineSink& sink) {
  if (state.scoring()) {
    sink.on_scored(state.id(), state.take_score());
  } else {
    sink.on_finished(state.id(), state.take_result());
  }
}

void Engine::deliver_refused(RequestId id, EngineSink& sink) {
  const auto item = refused_.extract(id);  // gone even when the sink throws
  const auto& [request, refusal] = item.mapped();
  if (request.score_top_logprobs) {
    sink.on_scored(id, refused_score(request, refusal));
  } else {
    sink.on_finished(id, refused_result(id, request, refusal, context_));
  }
}

void Engine::deliver(std::vector<Event>& events, EngineSink& sink) {
  for (Event& event : events) {
    if (event.token) sink.on_token(event.id, std::move(*event.token));
    if (event.ended) deliver_end(*event.ended, sink);
  }
}

void Engine::fail_all(const std::string& message, EngineSink& sink) {
  poisoned_ = message;
  auto requests = std::exchange(requests_, {});
  ids_.clear();
  for (auto& [sequence, state] : requests) scheduler_.abort(sequence);
  for (auto& [sequence, state] : requests) {
    state->finish(finish_reason::kError, message);
    deliver_end(*state, sink);
  }
}

void Engine::abort(RequestId id, EngineSink& sink) { finish(id, finish_reason::kAbort, sink); }

void Engine::finish(RequestId id, const std::string& reason, EngineSink& sink) {
  const auto found = ids_.find(id);
  if (found == ids_.end()) {
    if (refused_.contains(id)) deliver_refused(id, sink);
    return;
  }
  const SeqId sequence = found->second;
  scheduler_.abort(sequence);
  const std::unique_ptr<RequestState> state = std::move(requests_.at(sequence));
  requests_.erase(sequence);
  ids_.erase(found);
  state->finish(reason, reason == finish_reason::kAbort ? "the request was aborted" : "");
  deliver_end(*state, sink);
}

EngineCounters Engine::counters() const {
  EngineCounters counters = counters_;
  counters.preemptions = scheduler_.preemptions();
  return counters;
}

}  // namespace deepinfer
