#include "deepinfer/llm.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "conversions.h"

namespace nb = nanobind;
using namespace nb::literals;  // NOLINT(google-build-using-namespace): "name"_a

namespace deepinfer::python {
namespace {

// A field of a C++ struct that holds text which came from outside: never a UnicodeDecodeError.
template <auto Member, typename Class>
nb::str text_field(const Class& self) {
  return to_str(self.*Member);
}

void bind_sampling_params(nb::module_& module) {
  nb::enum_<LogprobsMode>(module, "LogprobsMode")
      .value("processed", LogprobsMode::kProcessed)
      .value("raw", LogprobsMode::kRaw);
  using P = SamplingParams;
  nb::class_<P>(module, "SamplingParams")
      .def(nb::init<>())
      .def_rw("temperature", &P::temperature)
      .def_rw("top_p", &P::top_p)
      .def_rw("top_k", &P::top_k)
      .def_rw("max_tokens", &P::max_tokens)
      .def_rw("ignore_eos", &P::ignore_eos)
      .def_rw("first_n_token_no_eos", &P::first_n_token_no_eos)
      .def_rw("top_logprobs", &P::top_logprobs)
      .def_rw("prompt_logprobs", &P::prompt_logprobs)
      .def_rw("seq_seed", &P::seq_seed, nb::arg("value").none())
      .def_rw("golden_token_ids", &P::golden_token_ids)
      .def_rw("min_p", &P::min_p)
      .def_rw("repetition_penalty", &P::repetition_penalty)
      .def_rw("presence_penalty", &P::presence_penalty)
      .def_rw("frequency_penalty", &P::frequency_penalty)
      .def_rw("logit_bias", &P::logit_bias)
      .def_rw("stop", &P::stop)
      .def_rw("stop_token_ids", &P::stop_token_ids)
      .def_rw("min_tokens", &P::min_tokens)
      .def_rw("n", &P::n)
      .def_rw("logprobs_mode", &P::logprobs_mode)
      .def_rw("bad_words", &P::bad_words)
      .def_rw("allowed_token_ids", &P::allowed_token_ids, nb::arg("value").none())
      .def("validate", &P::validate);
}

void bind_outputs(nb::module_& module) {
  using R = RequestOutput;
  nb::class_<R>(module, "RequestOutput", "One generated token.")
      .def_ro("request_id", &R::request_id)
      .def_ro("prompt_len", &R::prompt_len)
      .def_ro("token_id", &R::token_id)
      .def_ro("finished", &R::finished)
      .def_ro("finish_reason", &R::finish_reason)
      .def_ro("token_logprobs", &R::token_logprobs)
      .def_ro("nextn_logprobs", &R::nextn_logprobs)
      .def_ro("sum_smaller_probs", &R::sum_smaller_probs)
      .def_ro("top_logprobs", &R::top_logprobs)
      .def_ro("top_token_ids", &R::top_token_ids)
      .def_ro("num_output_tokens", &R::num_output_tokens)
      .def_ro("prompt_logprobs", &R::prompt_logprobs)
      .def_ro("draft_tok", &R::draft_tok)
      .def_ro("accept_tok", &R::accept_tok)
      .def_ro("confidence_score", &R::confidence_score)
      .def_ro("max_num_batched_tokens", &R::max_num_batched_tokens)
      .def("__repr__", [](const R& self) {
        std::string text = "RequestOutput(request_id='" + self.request_id +
                           "', token_id=" + std::to_string(self.token_id) +
                           ", num_output_tokens=" + std::to_string(self.num_output_tokens);
        if (self.finished) text += ", finish_reason='" + self.finish_reason + "'";
        return text + ")";
      });

  using C = CompletionResult;
  nb::class_<C>(module, "CompletionResult", "One sample of one prompt.")
      .def_ro("index", &C::index)
      .def_ro("sample", &C::sample)
      .def_ro("request_id", &C::request_id)
      .def_ro("prompt_len", &C::prompt_len)
      .def_prop_ro("text", &text_field<&C::text, C>)
      .def_prop_ro("text_skip_special", &text_field<&C::text_skip_special, C>)
      .def_ro("token_ids", &C::token_ids)
      .def_ro("token_logprobs", &C::token_logprobs)
      .def_ro("finish_reason", &C::finish_reason)
      .def_prop_ro("error", &text_field<&C::error, C>)
      .def("request_outputs", &to_request_outputs);

  using S = ScoreResult;
  nb::class_<S>(module, "ScoreResult", "Log-probabilities of a given sequence.")
      .def_ro("index", &S::index)
      .def_ro("token_ids", &S::token_ids)
      .def_ro("token_logprobs", &S::token_logprobs)
      .def_prop_ro("top_logprobs",
                   [](const S& self) {
                     std::vector<std::vector<std::pair<std::int32_t, float>>> positions;
                     for (const auto& position : self.top_logprobs) {
                       auto& row = positions.emplace_back();
                       for (const auto& [id, logprob] : position) row.emplace_back(id, logprob);
                     }
                     return positions;
                   })
      .def_ro("finish_reason", &S::finish_reason)
      .def_prop_ro("error", &text_field<&S::error, S>)
      .def_prop_ro("total_logprob", &S::total_logprob);

  using T = ToolCall;
  nb::class_<T>(module, "ToolCall")
      .def_prop_ro("id", &text_field<&T::id, T>)
      .def_prop_ro("name", &text_field<&T::name, T>)
      .def_prop_ro("arguments", &text_field<&T::arguments, T>);
  using U = Usage;
  nb::class_<U>(module, "Usage")
      .def_ro("prompt_tokens", &U::prompt_tokens)
      .def_ro("completion_tokens", &U::completion_tokens)
      .def_ro("reasoning_tokens", &U::reasoning_tokens)
      .def_prop_ro("total_tokens", &U::total_tokens);
  using A = ChatResult;
  nb::class_<A>(module, "ChatResult", "The answer to one conversation.")
      .def_ro("index", &A::index)
      .def_ro("sample", &A::sample)
      .def_prop_ro("content", &text_field<&A::content, A>)
      .def_prop_ro("reasoning_content", &text_field<&A::reasoning_content, A>)
      .def_ro("tool_calls", &A::tool_calls)
      .def_ro("finish_reason", &A::finish_reason)
      .def_ro("usage", &A::usage)
      .def_ro("token_ids", &A::token_ids)
      .def_prop_ro("raw_text", &text_field<&A::raw_text, A>)
      .def_prop_ro("error", &text_field<&A::error, A>)
      .def_ro("warnings", &A::warnings);
}

void bind_engine_options(nb::module_& module) {
  using O = EngineOptions;
  nb::class_<O>(module, "EngineOptions")
      .def(nb::init<>())
      .def_rw("model", &O::model, nb::arg("value").none())
      .def_rw("tokenizer", &O::tokenizer, nb::arg("value").none())
      .def_rw("device", &O::device, nb::arg("value").none())
      .def_rw("numerics", &O::numerics, nb::arg("value").none())
      .def_rw("num_threads", &O::num_threads, nb::arg("value").none())
      .def_rw("max_model_len", &O::max_model_len)
      .def_rw("auto_max_model_len", &O::auto_max_model_len)
      .def_rw("max_num_seqs", &O::max_num_seqs)
      .def_rw("max_num_batched_tokens", &O::max_num_batched_tokens)
      .def_rw("chunked_prefill", &O::chunked_prefill)
      .def_rw("tokens_per_block", &O::tokens_per_block)
      .def_rw("max_memory", &O::max_memory, nb::arg("value").none());
  using I = EngineInfo;
  nb::class_<I>(module, "EngineInfo")
      .def_prop_ro("model_path", &text_field<&I::model_path, I>)
      .def_prop_ro("model_origin", &text_field<&I::model_origin, I>)
      .def_prop_ro("tokenizer_path", &text_field<&I::tokenizer_path, I>)
      .def_ro("device", &I::device)
      .def_ro("numerics", &I::numerics)
      .def_ro("num_threads", &I::num_threads)
      .def_ro("max_model_len", &I::max_model_len)
      .def_ro("max_position_embeddings", &I::max_position_embeddings)
      .def_ro("max_num_seqs", &I::max_num_seqs)
      .def_ro("max_num_batched_tokens", &I::max_num_batched_tokens)
      .def_ro("vocab_size", &I::vocab_size);
}

// The callbacks of a call, held by the caller's frame while the call runs without the GIL. Each
// takes the GIL for itself; a Python exception travels through the engine, which then aborts the
// call's requests, and comes out of the call as it was raised.
struct Callbacks {
  nb::object on_token;
  nb::object on_delta;
  nb::object on_finished;
  nb::object cancelled;

  CallOptions options(std::optional<bool> add_bos, bool strict) const {
    CallOptions call;
    call.add_bos = add_bos;
    call.strict = strict;
    if (!on_token.is_none()) {
      call.on_token = [this](const StreamEvent& event) {
        const nb::gil_scoped_acquire acquire;
        on_token(event.index, event.sample, nb::cast(event.output), to_str(event.text_delta));
      };
    }
    if (!on_delta.is_none()) {
      call.on_delta = [this](const ChatDelta& delta) {
        const nb::gil_scoped_acquire acquire;
        on_delta(delta.index, static_cast<int>(delta.kind), to_str(delta.text), delta.tool_index,
                 to_str(delta.tool_id), to_str(delta.tool_name));
      };
    }
    if (!on_finished.is_none()) {
      call.on_progress = [this, reported = std::size_t{0}](const Progress& progress) mutable {
        if (progress.finished == reported) return;
        const std::size_t fresh = progress.finished - reported;
        reported = progress.finished;
        const nb::gil_scoped_acquire acquire;
        on_finished(fresh);
      };
    }
    // Asked before every step, so Ctrl-C ends a call within a step.
    call.cancelled = [this] {
      const nb::gil_scoped_acquire acquire;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      return !cancelled.is_none() && nb::cast<bool>(cancelled());
    };
    return call;
  }
};

std::vector<Prompt> to_prompts(nb::list prompts) {
  std::vector<Prompt> result;
  result.reserve(nb::len(prompts));
  for (const nb::handle prompt : prompts) {
    if (PyUnicode_Check(prompt.ptr())) {
      result.emplace_back(to_utf8(prompt, "a prompt"));
    } else {
      result.emplace_back(to_token_ids(prompt, "a prompt that is no string"));
    }
  }
  return result;
}

// The engine with its end in the caller's hand: after close() the last running call frees weights
// and caches. The pointer itself is only touched with the GIL held.
class Engine {
 public:
  explicit Engine(const EngineOptions& options) : llm_(std::make_shared<LLM>(options)) {}

  std::shared_ptr<LLM> llm() const {
    if (!llm_) throw nb::value_error("this LLM is closed");
    return llm_;
  }
  std::shared_ptr<LLM> take() { return std::exchange(llm_, nullptr); }

 private:
  std::shared_ptr<LLM> llm_;
};

void bind_engine(nb::module_& module) {
  nb::class_<Engine>(module, "Engine")
      .def(
          "__init__",
          [](Engine* self, const EngineOptions& options) {
            // The object is Python's: taken while the lock is held.
            // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
            const EngineOptions copy = options;
            const nb::gil_scoped_release release;
            new (self) Engine(copy);
          },
          "options"_a)
      .def("close",
           [](Engine& self) {
             std::shared_ptr<LLM> llm = self.take();
             const nb::gil_scoped_release release;
             llm.reset();
           })
      .def_prop_ro("info", [](Engine& self) { return self.llm()->info(); })
      .def(
          "generate",
          [](Engine& self, nb::list prompts, const std::vector<SamplingParams>& params,
             nb::object on_token, nb::object on_finished, nb::object cancelled,
             std::optional<bool> add_bos, bool strict) {
            const std::shared_ptr<LLM> llm = self.llm();
            const std::vector<Prompt> inputs = to_prompts(std::move(prompts));
            const Callbacks callbacks{std::move(on_token), nb::none(), std::move(on_finished),
                                      std::move(cancelled)};
            const CallOptions call = callbacks.options(add_bos, strict);
            const nb::gil_scoped_release release;
            return llm->generate(inputs, params, call);
          },
          "prompts"_a, "params"_a, "on_token"_a.none(), "on_finished"_a.none(),
          "cancelled"_a.none(), "add_bos"_a.none(), "strict"_a)
      .def(
          "chat",
          [](Engine& self, nb::list requests, const std::vector<SamplingParams>& params,
             bool official_sampling_policy, nb::object on_delta, nb::object on_finished,
             nb::object cancelled, bool strict) {
            const std::shared_ptr<LLM> llm = self.llm();
            std::vector<std::string> inputs;
            for (const nb::handle request : requests) {
              inputs.push_back(to_utf8(request, "a request"));
            }
            const ChatOptions chat{.official_sampling_policy = official_sampling_policy,
                                   .sampling = params};
            const Callbacks callbacks{nb::none(), std::move(on_delta), std::move(on_finished),
                                      std::move(cancelled)};
            const CallOptions call = callbacks.options(std::nullopt, strict);
            const nb::gil_scoped_release release;
            return llm->chat(inputs, chat, call);
          },
          "requests"_a, "params"_a, "official_sampling_policy"_a, "on_delta"_a.none(),
          "on_finished"_a.none(), "cancelled"_a.none(), "strict"_a)
      .def(
          "score",
          [](Engine& self, nb::list prompts, int top_logprobs, nb::object on_finished,
             std::optional<bool> add_bos, bool strict) {
            const std::shared_ptr<LLM> llm = self.llm();
            const std::vector<Prompt> inputs = to_prompts(std::move(prompts));
            const Callbacks callbacks{nb::none(), nb::none(), std::move(on_finished), nb::none()};
            const CallOptions call = callbacks.options(add_bos, strict);
            const nb::gil_scoped_release release;
            return llm->score(inputs, top_logprobs, call);
          },
          "prompts"_a, "top_logprobs"_a, "on_finished"_a.none(), "add_bos"_a.none(), "strict"_a);
}

}  // namespace

void bind_llm(nb::module_& module) {
  bind_sampling_params(module);
  bind_outputs(module);
  bind_engine_options(module);
  bind_engine(module);
}

}  // namespace deepinfer::python
