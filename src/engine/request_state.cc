#include "engine/request_state.h"

#include <algorithm>
#include <limits>

namespace deepinfer {
namespace {

std::string to_text(RequestId id) { return std::to_string(static_cast<std::uint64_t>(id)); }

}  // namespace

RequestState::RequestState(RequestId id, EngineRequest request, const RequestContext& context)
    : id_(id),
      request_(std::move(request)),
      context_(context),
      prompt_len_(static_cast<int>(request_.prompt.size())),
      tokens_(std::move(request_.prompt)) {
  request_.prompt.clear();
  const SamplingParams& sampling = request_.sampling;
  if (context.tokenizer != nullptr && !scoring()) text_.emplace(*context.tokenizer, sampling.stop);
  for (const auto& [token, bias] : sampling.logit_bias) {
    bias_.emplace_back(token, static_cast<float>(bias));
  }
  early_stops_ = context.eos;
  early_stops_.insert(early_stops_.end(), sampling.stop_token_ids.begin(),
                      sampling.stop_token_ids.end());
}

void RequestState::add_prompt_logprob(SampledToken&& scored) {
  prompt_logprobs_.push_back(scored.logprob);
  prompt_top_.push_back(std::move(scored.top));
}

void RequestState::collect_bad_words() {
  banned_now_.clear();
  const std::span<const TokenId> output =
      std::span<const TokenId>(tokens_).subspan(static_cast<std::size_t>(prompt_len_));
  for (const std::vector<TokenId>& word : request_.bad_words) {
    if (word.empty() || word.size() - 1 > output.size()) continue;
    const auto begin = output.end() - static_cast<std::ptrdiff_t>(word.size() - 1);
    if (std::equal(begin, output.end(), word.begin())) banned_now_.push_back(word.back());
  }
}

SampleRow RequestState::sample_row() {
  const SamplingParams& sampling = request_.sampling;
  collect_bad_words();
  SampleRow row;
  row.filter.temperature = static_cast<float>(sampling.temperature);
  row.filter.top_p = static_cast<float>(sampling.top_p);
  row.filter.top_k = sampling.top_k;
  row.filter.min_p = static_cast<float>(sampling.min_p);
  row.filter.force_topk = context_.force_topk;
  row.draw_mode = sampling.draw_mode;
  row.logprobs_mode = sampling.logprobs_mode;
  row.top_logprobs = sampling.top_logprobs;
  row.seed = request_.seed;
  row.position = static_cast<std::int64_t>(tokens_.size());
  const auto output = static_cast<std::size_t>(output_len());
  if (output < sampling.golden_token_ids.size()) row.forced = sampling.golden_token_ids[output];

  row.edits.banned[1] = context_.blacklist;
  row.edits.banned[2] = banned_now_;
  if (output_len() < sampling.min_tokens) {
    row.edits.banned[3] = early_stops_;
  } else if (sampling.first_n_token_no_eos == 1 && output == 0) {
    row.edits.banned[3] = context_.eos;
  }
  if (sampling.allowed_token_ids) row.edits.allowed = *sampling.allowed_token_ids;
  row.edits.bias = bias_;
  row.edits.repetition = static_cast<float>(sampling.repetition_penalty);
  row.edits.frequency = static_cast<float>(sampling.frequency_penalty);
  row.edits.presence = static_cast<float>(sampling.presence_penalty);
  const std::span<const TokenId> all(tokens_);
  row.edits.prompt = all.first(static_cast<std::size_t>(prompt_len_));
  row.edits.output = all.subspan(static_cast<std::size_t>(prompt_len_));
  return row;
}

bool RequestState::is_eos(TokenId token) const {
  return std::find(context_.eos.begin(), context_.eos.end(), token) != context_.eos.end();
}

bool RequestState::is_stop_id(TokenId token) const {
  const auto& ids = request_.sampling.stop_token_ids;
  return std::find(ids.begin(), ids.end(), token) != ids.end();
}

const char* RequestState::stop_reason(TokenId token) {
  const SamplingParams& sampling = request_.sampling;
  if ((!sampling.ignore_eos && is_eos(token)) || is_stop_id(token)) {
    stop_token_ = token;
    return finish_reason::kStop;
  }
  if (text_ && text_->match() != nullptr) return finish_reason::kStop;
  // As the official package counts: the token that exceeds the length is still given out.
  if (static_cast<int>(tokens_.size()) > context_.max_model_len) return finish_reason::kLength;
  if (output_len() >= std::max<std::int64_t>(sampling.max_tokens, 1)) return finish_reason::kLength;
  return nullptr;
}

StreamEvent RequestState::append(SampledToken&& chosen) {
  tokens_.push_back(chosen.token);
  logprobs_.push_back(chosen.logprob);
  top_.push_back(std::move(chosen.top));

  StreamEvent event;
  if (text_) {
    TextStream::Delta delta =
        text_->push(chosen.token, output_len() >= request_.sampling.min_tokens);
    event.text_delta = std::move(delta.text);
    event.text_delta_skip_special = std::move(delta.text_skip_special);
  }
  if (const char* reason = stop_reason(chosen.token)) {
    const TextStream::Delta rest = finish(reason, "");
    event.text_delta += rest.text;
    event.text_delta_skip_special += rest.text_skip_special;
  }

  RequestOutput& output = event.output;
  output.request_id = to_text(id_);
  output.prompt_len = prompt_len_;
  output.token_id = chosen.token;
  output.finished = finished();
  output.finish_reason = finish_reason_;
  output.token_logprobs = chosen.logprob;
  for (const TokenLogprob& entry : top_.back()) {
    output.top_logprobs.push_back(entry.logprob);
    output.top_token_ids.push_back(entry.token_id);
  }
  output.num_output_tokens = output_len();
  if (output_len() == 1) output.prompt_logprobs = prompt_logprobs_;
  output.max_num_batched_tokens = context_.max_num_batched_tokens;
  return event;
}

TextStream::Delta RequestState::finish(const std::string& reason, const std::string& error) {
  finish_reason_ = reason;
  error_ = error;
  return text_ ? text_->finish() : TextStream::Delta{};
}

CompletionResult RequestState::take_result() {
  CompletionResult result;
  result.request_id = to_text(id_);
  result.prompt_len = prompt_len_;
  if (text_) {
    result.text = text_->text();
    result.text_skip_special = text_->text_skip_special();
    if (text_->match() != nullptr) result.stop_match = *text_->match();
  }
  result.token_ids.assign(tokens_.begin() + prompt_len_, tokens_.end());
  result.token_logprobs = std::move(logprobs_);
  result.top_logprobs = std::move(top_);
  if (request_.sampling.prompt_logprobs) result.prompt_logprobs = std::move(prompt_logprobs_);
  result.finish_reason = finish_reason_;
  result.stop_token = stop_token_;
  result.seq_seed = request_.seed;
  result.last_prompt_token = tokens_[static_cast<std::size_t>(prompt_len_) - 1];
  result.max_num_batched_tokens = context_.max_num_batched_tokens;
  result.error = error_;
  return result;
}

ScoreResult RequestState::take_score() {
  ScoreResult result;
  result.finish_reason = error_.empty() ? "" : finish_reason_;
  result.error = error_;
  if (!error_.empty()) return result;
  result.token_ids = std::move(tokens_);
  result.token_logprobs.push_back(std::numeric_limits<float>::quiet_NaN());
  result.token_logprobs.insert(result.token_logprobs.end(), prompt_logprobs_.begin(),
                               prompt_logprobs_.end());
  result.top_logprobs.emplace_back();
  for (auto& entries : prompt_top_) result.top_logprobs.push_back(std::move(entries));
  return result;
}

CompletionResult refused_result(RequestId id, const EngineRequest& request, const Refusal& refusal,
                                const RequestContext& context) {
  CompletionResult result;
  result.request_id = to_text(id);
  result.prompt_len = static_cast<int>(request.prompt.size());
  if (!request.prompt.empty()) result.last_prompt_token = request.prompt.back();
  result.finish_reason = refusal.finish_reason;
  result.error = refusal.message;
  result.seq_seed = request.seed;
  result.max_num_batched_tokens = context.max_num_batched_tokens;
  return result;
}

ScoreResult refused_score(const EngineRequest& request, const Refusal& refusal) {
  ScoreResult result;
  result.token_ids = request.prompt;
  result.finish_reason = refusal.finish_reason;
  result.error = refusal.message;
  return result;
}

}  // namespace deepinfer
