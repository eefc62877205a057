#include "api/session.h"

#include <exception>
#include <string>
#include <utility>

#include "base/log.h"

namespace deepinfer {

Session::Session(Engine& engine, const CallOptions& call, Handlers handlers)
    : engine_(engine),
      call_(call),
      handlers_(std::move(handlers)),
      prompt_tokens_before_(engine.counters().prompt_tokens) {}

Session::~Session() {
  abandoned_ = true;
  const std::set<RequestId> open = open_;
  try {
    for (const RequestId id : open) engine_.abort(id, *this);
  } catch (const std::exception& error) {
    // The engine is beyond use, and the exception that led here says why.
    log_error(std::string("requests of an ended call could not be aborted: ") + error.what());
  }
}

RequestId Session::submit(EngineRequest request) {
  const RequestId id = engine_.submit(std::move(request));
  open_.insert(id);
  ++progress_.total;
  return id;
}

void Session::run() {
  while (!open_.empty()) {
    if (call_.cancelled && call_.cancelled()) {
      const std::set<RequestId> open = open_;
      for (const RequestId id : open) engine_.abort(id, *this);
      report();
      return;
    }
    engine_.step(*this);
    for (const RequestId id : std::exchange(ending_, {})) {
      if (open_.contains(id)) engine_.finish(id, finish_reason::kStop, *this);
    }
    report();
  }
}

void Session::report() {
  progress_.prompt_tokens = engine_.counters().prompt_tokens - prompt_tokens_before_;
  if (call_.on_progress) call_.on_progress(progress_);
}

void Session::end(RequestId id) {
  open_.erase(id);
  ++progress_.finished;
}

void Session::on_token(RequestId id, StreamEvent&& event) {
  ++progress_.generated_tokens;
  if (handlers_.token) handlers_.token(id, std::move(event));
}

void Session::on_finished(RequestId id, CompletionResult&& result) {
  end(id);
  if (!abandoned_ && handlers_.finished) handlers_.finished(id, std::move(result));
}

void Session::on_scored(RequestId id, ScoreResult&& result) {
  end(id);
  if (!abandoned_ && handlers_.scored) handlers_.scored(id, std::move(result));
}

}  // namespace deepinfer
