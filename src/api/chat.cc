#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "api/llm_impl.h"
#include "api/session.h"
#include "base/error.h"
#include "base/philox.h"
#include "text/chat_encoder.h"
#include "text/chat_request.h"
#include "text/output_parser.h"

namespace deepinfer {
namespace {

/// Distinct for the calls of a conversation and the same whenever it is run again with its seed.
std::string tool_call_id(std::uint64_t seed, std::size_t call) {
  const auto words =
      philox4x32_10({static_cast<std::uint32_t>(call), 3, 0, 0},
                    {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  constexpr char kDigits[] = "0123456789abcdef";
  std::string id = "call_";
  for (const std::uint32_t word : {words[0], words[1], words[2]}) {
    for (int shift = 28; shift >= 0; shift -= 4) id += kDigits[(word >> shift) & 15U];
  }
  return id;
}

/// A request made ready: ids, sampling values, how to read the answer.
struct Conversation {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  OutputParserOptions parser;
  std::vector<std::string> warnings;
};

void refuse_unsupported(const ChatRequest& request) {
  using Kind = OutputConstraint::Kind;
  const Kind kind = request.constraint.kind;
  if (kind == Kind::kJson || kind == Kind::kRegex || !request.extra.so_args.empty()) {
    fail(ErrorKind::kUnsupported,
         "structured outputs (response_format, so_args) are not available in this version");
  }
  if (!request.conversation.images.empty()) {
    fail(ErrorKind::kUnsupported, "image input is not available in this version");
  }
}

SamplingParams sampling_of(const ChatRequest& request, std::size_t prompt_tokens,
                           int max_model_len) {
  SamplingParams sampling;
  sampling.temperature = request.temperature;
  sampling.top_p = request.top_p;
  sampling.top_k = request.extra.top_k.value_or(-1);
  sampling.max_tokens =
      request.token_budget(static_cast<std::int64_t>(prompt_tokens), max_model_len);
  sampling.seq_seed = request.seed;
  sampling.top_logprobs = request.logprobs ? request.top_logprobs.value_or(0) : 0;
  sampling.stop = request.stop;
  sampling.n = request.n;
  sampling.min_p = request.extra.min_p;
  sampling.presence_penalty = request.extra.presence_penalty;
  sampling.frequency_penalty = request.extra.frequency_penalty;
  sampling.repetition_penalty = request.extra.repetition_penalty;
  for (const auto& [token, bias] : request.extra.logit_bias) {
    sampling.logit_bias.emplace_back(static_cast<TokenId>(token), bias);
  }
  for (const std::int64_t token : request.extra.stop_token_ids) {
    sampling.stop_token_ids.push_back(static_cast<TokenId>(token));
  }
  if (!request.extra.allowed_token_ids.empty()) {
    auto& allowed = sampling.allowed_token_ids.emplace();
    for (const std::int64_t token : request.extra.allowed_token_ids) {
      allowed.push_back(static_cast<TokenId>(token));
    }
  }
  sampling.bad_words = request.extra.bad_words;
  sampling.min_tokens = request.extra.min_tokens;
  sampling.ignore_eos = request.extra.ignore_eos;
  return sampling;
}

void collect_warnings(const ChatRequest& request, std::vector<std::string>& warnings) {
  for (const std::string& name : request.policy_departures) {
    warnings.push_back(name + " departs from the official sampling policy");
  }
  for (const std::string& name : request.policy_overrides) {
    warnings.push_back(name + " was replaced by the official sampling policy");
  }
  for (const std::string& name : request.unknown_fields) {
    warnings.emplace_back("unknown field " + name + " is ignored");
  }
  if (request.constraint.kind == OutputConstraint::Kind::kToolCallRequired) {
    warnings.emplace_back("tool_choice opens a call but doesn't constrain it in this version");
  }
}

/// Follows one answer: parser, deltas, counts.
class Answer {
 public:
  Answer(std::size_t index, int sample, const Conversation& conversation, std::uint64_t seed)
      : parser_(conversation.parser), seed_(seed) {
    result_.index = index;
    result_.sample = sample;
    result_.warnings = conversation.warnings;
    result_.usage.prompt_tokens = static_cast<int>(conversation.prompt.size());
  }

  /// Takes a token's text. True when the answer is at its end: a stop string was found.
  bool push(std::string_view text, const CallOptions& call) {
    if (parser_.in_reasoning()) ++result_.usage.reasoning_tokens;
    ++result_.usage.completion_tokens;
    take(parser_.push(text), call);
    return parser_.stopped();
  }

  ChatResult finish(CompletionResult&& completion, const CallOptions& call) {
    take(parser_.finish(completion.finish_reason), call);
    result_.content = message_.content;
    result_.reasoning_content = message_.reasoning;
    for (std::size_t i = 0; i < message_.tool_calls.size(); ++i) {
      result_.tool_calls.push_back(
          {tool_call_id(seed_, i), message_.tool_calls[i].name, message_.tool_calls[i].arguments});
    }
    result_.finish_reason = parser_.finish_reason();
    result_.token_ids = std::move(completion.token_ids);
    result_.token_logprobs = std::move(completion.token_logprobs);
    result_.top_logprobs = std::move(completion.top_logprobs);
    result_.raw_text = std::move(completion.text);
    result_.error = std::move(completion.error);
    return std::move(result_);
  }

 private:
  void take(const std::vector<OutputDelta>& deltas, const CallOptions& call) {
    message_.add(deltas);
    if (!call.on_delta) return;
    for (const OutputDelta& delta : deltas) {
      ChatDelta out;
      out.index = result_.index;
      out.sample = result_.sample;
      switch (delta.kind) {
        case OutputDelta::Kind::kReasoning:
          out.kind = ChatDelta::Kind::kReasoning;
          out.text = delta.text;
          break;
        case OutputDelta::Kind::kContent:
          out.kind = ChatDelta::Kind::kContent;
          out.text = delta.text;
          break;
        case OutputDelta::Kind::kToolCallStart:
          out.kind = ChatDelta::Kind::kToolCall;
          out.tool_index = static_cast<int>(delta.call_index);
          out.tool_id = tool_call_id(seed_, delta.call_index);
          out.tool_name = delta.text;
          break;
        case OutputDelta::Kind::kToolCallArguments:
          out.kind = ChatDelta::Kind::kToolCall;
          out.tool_index = static_cast<int>(delta.call_index);
          out.text = delta.text;
          break;
      }
      call.on_delta(out);
    }
  }

  OutputParser parser_;
  ParsedMessage message_;
  ChatResult result_;
  std::uint64_t seed_;
};

/// `text` without the spelling of `token` at its end.
std::string_view without_suffix(std::string_view text, std::string_view suffix) {
  if (text.ends_with(suffix)) text.remove_suffix(suffix.size());
  return text;
}

}  // namespace

std::vector<ChatResult> LLM::Impl::chat(const std::vector<std::string>& requests,
                                        const ChatOptions& chat, const CallOptions& call) {
  if (chat.sampling.size() > 1 && chat.sampling.size() != requests.size()) {
    fail_argument("there are " + std::to_string(requests.size()) + " conversations and " +
                  std::to_string(chat.sampling.size()) +
                  " sampling parameters: give none, one, or one each");
  }
  for (const SamplingParams& sampling : chat.sampling) engine().validate(sampling);

  ChatRequestOptions request_options;
  request_options.official_sampling = chat.official_sampling_policy;
  const auto prepare = [&](std::size_t index) {
    const ChatRequest request = parse_chat_request(requests[index], request_options);
    refuse_unsupported(request);
    const RenderedPrompt rendered = ChatEncoder().render(request.conversation);
    Conversation conversation;
    conversation.prompt = tokenizer().encode_prompt(rendered.text, rendered.special_ranges);
    if (const auto refusal = engine().check_prompt(conversation.prompt)) {
      // The engine answers with the reason; a token budget for such a prompt would only hide it.
      if (call.strict) fail_argument(refusal->message);
    } else if (chat.sampling.empty()) {
      conversation.sampling =
          sampling_of(request, conversation.prompt.size(), assembly->info.max_model_len);
      engine().validate(conversation.sampling);
    } else {
      conversation.sampling = chat.sampling.size() == 1 ? chat.sampling[0] : chat.sampling[index];
    }
    conversation.parser.start = rendered.start;
    conversation.parser.parse_tool_calls = request.parse_tool_calls;
    // The parser matches stop strings, in content only; the engine must not.
    conversation.parser.stop = std::exchange(conversation.sampling.stop, {});
    collect_warnings(request, conversation.warnings);
    return conversation;
  };

  std::vector<std::vector<ChatResult>> results(requests.size());
  std::map<RequestId, Answer> answers;
  std::map<RequestId, std::pair<std::size_t, int>> places;
  const std::vector<TokenId>& eos = engine().context().eos;
  Session* running = nullptr;
  Session::Handlers handlers;
  handlers.token = [&](RequestId id, StreamEvent&& event) {
    std::string_view text = event.text_delta;
    const TokenId token = event.output.token_id;
    if (event.output.finished && std::find(eos.begin(), eos.end(), token) != eos.end()) {
      text = without_suffix(text, tokenizer().token_bytes(token));
    }
    const auto [index, sample] = places.at(id);
    const bool ended = answers.at(id).push(text, call);
    if (call.on_token) {
      event.index = index;
      event.sample = sample;
      call.on_token(event);
    }
    if (ended && !event.output.finished) running->end_early(id);
  };
  handlers.finished = [&](RequestId id, CompletionResult&& completion) {
    const auto [index, sample] = places.at(id);
    results[index][static_cast<std::size_t>(sample)] =
        answers.at(id).finish(std::move(completion), call);
    answers.erase(id);
  };
  Session session(engine(), call, std::move(handlers));
  running = &session;

  std::vector<std::optional<Conversation>> conversations(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    try {
      conversations[i] = prepare(i);
    } catch (const Error& error) {
      if (call.strict) throw;
      if (error.kind() == ErrorKind::kInternal) throw;
      ChatResult result;
      result.index = i;
      result.finish_reason = finish_reason::kError;
      result.error = error.what();
      results[i].push_back(std::move(result));
      session.count_finished();
    }
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!conversations[i]) continue;
    const Conversation& conversation = *conversations[i];
    const SamplingParams& sampling = conversation.sampling;
    const std::uint64_t first_seed = sampling.seq_seed ? *sampling.seq_seed : next_seed();
    const int samples = engine().check_prompt(conversation.prompt) ? 1 : sampling.n;
    results[i].resize(static_cast<std::size_t>(samples));
    for (int sample = 0; sample < samples; ++sample) {
      EngineRequest request;
      request.prompt = conversation.prompt;
      request.sampling = sampling;
      request.seed = first_seed + static_cast<std::uint64_t>(sample);
      request.bad_words = encode_bad_words(sampling.bad_words);
      const std::uint64_t seed_of_answer = request.seed;
      const RequestId id = session.submit(std::move(request));
      places.emplace(id, std::pair(i, sample));
      answers.emplace(id, Answer(i, sample, conversation, seed_of_answer));
    }
  }
  session.run();

  std::vector<ChatResult> flat;
  for (auto& group : results) {
    for (ChatResult& result : group) flat.push_back(std::move(result));
  }
  return flat;
}

RenderedChat LLM::render(const std::string& request_json) const {
  const ChatRequest request = parse_chat_request(request_json);
  const RenderedPrompt rendered = ChatEncoder().render(request.conversation);
  return {rendered.text, impl_->tokenizer().encode_prompt(rendered.text, rendered.special_ranges)};
}

ChatResult LLM::parse(std::string_view text, bool thinking) const {
  for (const TokenId token : impl_->assembly->engine->context().eos) {
    text = without_suffix(text, impl_->tokenizer().token_bytes(token));
  }
  OutputParserOptions options;
  options.start = thinking ? OutputStart::kReasoning : OutputStart::kContent;
  options.parse_tool_calls = true;
  const ParsedMessage message = parse_output(text, options);
  ChatResult result;
  result.content = message.content;
  result.reasoning_content = message.reasoning;
  for (std::size_t i = 0; i < message.tool_calls.size(); ++i) {
    result.tool_calls.push_back(
        {tool_call_id(0, i), message.tool_calls[i].name, message.tool_calls[i].arguments});
  }
  result.finish_reason = message.finish_reason;
  result.raw_text = text;
  return result;
}

}  // namespace deepinfer
