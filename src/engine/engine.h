#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/executor.h"
#include "engine/request.h"
#include "engine/request_state.h"
#include "scheduler/scheduler.h"

namespace deepinfer {

struct EngineConfig {
  SchedulerOptions scheduler;
  std::vector<TokenId> eos;
  std::vector<TokenId> blacklist;
  std::int64_t force_topk = 0;
};

struct EngineCounters {
  std::uint64_t steps = 0;
  std::uint64_t requests = 0;
  std::uint64_t prompt_tokens = 0;  ///< rows computed but those of decoding
  std::uint64_t generated_tokens = 0;
  std::uint64_t preemptions = 0;
  double forward_seconds = 0.0;
  double sample_seconds = 0.0;
  double total_seconds = 0.0;
};

/// Runs many requests together, one ragged step at a time: plan, forward, sample, commit. Driven by
/// one thread. A request's tokens and log-probabilities depend on its prompt, parameters and seed
/// alone, on a CPU bit for bit.
class Engine {
 public:
  /// Model, caches, tokenizer (may be null: no texts) and pool (may be null) must outlive the
  /// engine. Throws Error(kInvalidArgument) when the limits don't fit together.
  Engine(Model& model, CacheStore& caches, const Tokenizer* tokenizer, ThreadPool* pool,
         const EngineConfig& config);
  Engine(const Engine&) = delete;  // requests refer to the context
  Engine& operator=(const Engine&) = delete;

  /// Throws Error(kInvalidArgument) for sampling parameters that are out of range, naming the
  /// field; token ids are checked against the vocabulary.
  void validate(const SamplingParams& sampling) const;

  /// Why the prompt can't run; empty when it can.
  std::optional<Refusal> check_prompt(const std::vector<TokenId>& prompt) const;

  /// Queues a request; a prompt that can't run gets its result in the next step. Throws as
  /// validate(), and Error(kInternal) after a step failed.
  RequestId submit(EngineRequest request);

  /// The number of the next request.
  std::uint64_t next_request() const { return next_id_; }

  bool has_work() const { return !refused_.empty() || !requests_.empty(); }

  /// Runs one step and delivers what came of it. An exception of the forward pass finishes all
  /// requests with reason `error`, and the engine accepts no more.
  void step(EngineSink& sink);

  /// Ends a request now, with the tokens so far; unknown ids are ignored. Not from within a sink.
  void abort(RequestId id, EngineSink& sink);
  /// The same with another reason: `stop` when a reader of the text found the end.
  void finish(RequestId id, const std::string& reason, EngineSink& sink);

  const Scheduler& scheduler() const { return scheduler_; }
  const RequestContext& context() const { return context_; }
  EngineCounters counters() const;

 private:
  struct Event {
    RequestId id{};
    std::optional<StreamEvent> token;
    std::unique_ptr<RequestState> ended;
  };

  void make_jobs(const StepPlan& plan);
  void collect(const StepPlan& plan, std::vector<Event>& events);
  void fail_all(const std::string& message, EngineSink& sink);
  static void deliver(std::vector<Event>& events, EngineSink& sink);
  static void deliver_end(RequestState& state, EngineSink& sink);
  void deliver_refused(RequestId id, EngineSink& sink);

  RequestContext context_;
  int vocab_;
  bool chunked_prefill_;
  Executor executor_;
  Scheduler scheduler_;
  std::map<RequestId, SeqId> ids_;
  std::map<SeqId, std::unique_ptr<RequestState>> requests_;
  std::map<RequestId, std::pair<EngineRequest, Refusal>> refused_;
  std::vector<SampleJob> jobs_;
  std::vector<GroupOutcome> outcomes_;
  std::uint64_t next_id_ = 0;
  EngineCounters counters_;
  std::string poisoned_;  ///< why no more requests are accepted
};

}  // namespace deepinfer
