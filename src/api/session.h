#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "deepinfer/llm.h"
#include "engine/engine.h"

namespace deepinfer {

/// Drives an engine for one call: submits its requests, steps until they are done, keeps the
/// caller's callbacks and cancellation apart from the engine's state. However the call ends, none
/// of its requests is left in the engine.
class Session final : public EngineSink {
 public:
  struct Handlers {
    std::function<void(RequestId, StreamEvent&&)> token;
    std::function<void(RequestId, CompletionResult&&)> finished;
    std::function<void(RequestId, ScoreResult&&)> scored;
  };

  Session(Engine& engine, const CallOptions& call, Handlers handlers);
  ~Session() override;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  RequestId submit(EngineRequest request);
  /// For results that exist without a request.
  void count_finished() {
    ++progress_.total;
    ++progress_.finished;
  }

  /// From within the token handler: the request ends after this step, with reason `stop`.
  void end_early(RequestId id) { ending_.push_back(id); }

  /// Steps until every request has its result. An exception of a callback comes out of here.
  void run();

  void on_token(RequestId id, StreamEvent&& event) override;
  void on_finished(RequestId id, CompletionResult&& result) override;
  void on_scored(RequestId id, ScoreResult&& result) override;

 private:
  void report();
  void end(RequestId id);

  Engine& engine_;
  const CallOptions& call_;
  Handlers handlers_;
  std::set<RequestId> open_;
  std::vector<RequestId> ending_;
  Progress progress_;
  std::uint64_t prompt_tokens_before_;
  bool abandoned_ = false;  ///< results of what is aborted now have no reader
};

}  // namespace deepinfer
