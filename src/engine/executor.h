#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "cache/store/cache_store.h"
#include "model/model.h"
#include "model/step_batch.h"
#include "sampling/sampler.h"
#include "scheduler/step_plan.h"

namespace deepinfer {

/// One row of logits to turn into a token or a score.
struct SampleJob {
  std::int32_t logits_row = 0;
  std::size_t group = 0;  ///< of the plan, for the caller
  bool score = false;     ///< raw log-probabilities of `target` instead of a draw
  TokenId target = -1;
  std::int32_t target_position = 0;  ///< of the scored token, for the caller
  SampleRow row;

  SampledToken result;
  std::string error;  ///< why this row alone failed
};

/// Runs planned steps: StepPlan to flat arrays in buffers that are reused, the forward pass, and
/// the sampler over its rows.
class Executor {
 public:
  /// All must outlive the executor. `max_logits_rows` sizes the logits buffer, `pool` (null: none)
  /// samples rows side by side; it must not be in use by others during a call.
  Executor(Model& model, CacheStore& caches, ThreadPool* pool, std::int32_t max_logits_rows);

  /// All tokens of a sequence, prompt and output.
  using TokensOf = std::function<std::span<const TokenId>(SeqId)>;

  /// Computes the plan's rows. The first logits row of group g is then first_logits_row(g).
  void forward(const StepPlan& plan, const TokensOf& tokens_of);
  std::int32_t first_logits_row(std::size_t group) const { return first_logits_row_[group]; }

  /// Runs the jobs over the logits of the last forward; each row is edited in place, so scores of
  /// a row come before its draw.
  void sample(std::span<SampleJob> jobs);

 private:
  Model& model_;
  CacheStore& caches_;
  ThreadPool* pool_;
  std::int64_t ngram_size_;
  std::vector<TokenId> token_ids_;
  std::vector<TokenId> ngram_ids_;
  std::vector<SequenceRows> sequences_;
  std::vector<std::int32_t> logits_rows_;
  std::vector<std::int32_t> first_logits_row_;
  std::vector<float> logits_;
  std::int64_t vocab_;
  std::vector<Sampler> samplers_;
};

}  // namespace deepinfer
