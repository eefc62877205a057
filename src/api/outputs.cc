#include "deepinfer/outputs.h"

namespace deepinfer {

std::vector<RequestOutput> to_request_outputs(const CompletionResult& result) {
  std::vector<RequestOutput> outputs;
  const auto make = [&](std::int32_t token) {
    RequestOutput output;
    output.request_id = result.request_id;
    output.prompt_len = result.prompt_len;
    output.token_id = token;
    output.max_num_batched_tokens = result.max_num_batched_tokens;
    return output;
  };
  for (std::size_t i = 0; i < result.token_ids.size(); ++i) {
    RequestOutput output = make(result.token_ids[i]);
    output.token_logprobs = result.token_logprobs[i];
    if (i < result.top_logprobs.size()) {
      for (const TokenLogprob& entry : result.top_logprobs[i]) {
        output.top_logprobs.push_back(entry.logprob);
        output.top_token_ids.push_back(entry.token_id);
      }
    }
    output.num_output_tokens = static_cast<int>(i) + 1;
    if (i == 0) output.prompt_logprobs = result.prompt_logprobs;
    outputs.push_back(std::move(output));
  }
  if (outputs.empty()) outputs.push_back(make(result.last_prompt_token));
  outputs.back().finished = true;
  outputs.back().finish_reason = result.finish_reason;
  return outputs;
}

double ScoreResult::total_logprob() const {
  double total = 0.0;
  for (std::size_t i = 1; i < token_logprobs.size(); ++i) {
    total += static_cast<double>(token_logprobs[i]);
  }
  return total;
}

}  // namespace deepinfer
