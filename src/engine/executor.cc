#include "engine/executor.h"

#include <exception>

#include "base/error.h"

namespace deepinfer {

Executor::Executor(Model& model, CacheStore& caches, ThreadPool* pool, std::int32_t max_logits_rows)
    : model_(model),
      caches_(caches),
      pool_(pool),
      ngram_size_(model.config().engram_layer_ids.empty() ? 0
                                                          : model.config().engram_max_ngram_size),
      vocab_(model.config().vocab_size),
      samplers_(pool == nullptr ? 1U : static_cast<std::size_t>(pool->threads())) {
  const auto rows = static_cast<std::size_t>(model.max_tokens());
  token_ids_.reserve(rows);
  ngram_ids_.reserve(rows * static_cast<std::size_t>(ngram_size_));
  logits_.resize(static_cast<std::size_t>(max_logits_rows) * static_cast<std::size_t>(vocab_));
}

void Executor::forward(const StepPlan& plan, const TokensOf& tokens_of) {
  token_ids_.clear();
  ngram_ids_.clear();
  sequences_.clear();
  logits_rows_.clear();
  first_logits_row_.clear();
  for (const RowGroup& group : plan.groups) {
    const std::span<const TokenId> tokens = tokens_of(group.sequence);
    for (std::int32_t row = 0; row < group.rows; ++row) {
      const std::int32_t position = group.start + row;
      token_ids_.push_back(tokens[static_cast<std::size_t>(position)]);
      for (std::int64_t back = 0; back < ngram_size_; ++back) {
        const std::int64_t at = position - back;
        ngram_ids_.push_back(at >= 0 ? tokens[static_cast<std::size_t>(at)] : -1);
      }
    }
    sequences_.push_back({group.first_row, group.rows, group.start, group.state_slot});
    first_logits_row_.push_back(static_cast<std::int32_t>(logits_rows_.size()));
    for (std::int32_t row = group.rows - group.logits_rows; row < group.rows; ++row) {
      logits_rows_.push_back(group.first_row + row);
    }
  }
  StepBatch batch;
  batch.token_ids = token_ids_;
  batch.ngram_ids = ngram_ids_;
  batch.sequences = sequences_;
  batch.block_table = plan.block_table;
  batch.max_blocks = plan.max_blocks;
  batch.logits_rows = logits_rows_;
  const auto rows = static_cast<std::int64_t>(logits_rows_.size());
  if (static_cast<std::size_t>(rows * vocab_) > logits_.size()) {
    fail_internal("a step wants more logits rows than the executor was made for");
  }
  model_.forward(batch, caches_, Matrix(logits_.data(), rows, vocab_));
}

void Executor::sample(std::span<SampleJob> jobs) {
  const auto vocab = static_cast<std::size_t>(vocab_);
  const auto run = [&](std::int64_t begin, std::int64_t end, int thread) {
    Sampler& sampler = samplers_[static_cast<std::size_t>(thread)];
    for (std::int64_t i = begin; i < end; ++i) {
      SampleJob& job = jobs[static_cast<std::size_t>(i)];
      const std::span<float> logits(
          logits_.data() + static_cast<std::size_t>(job.logits_row) * vocab, vocab);
      try {
        job.result = job.score ? sampler.score(logits, job.target, job.row.top_logprobs)
                               : sampler.sample(logits, job.row);
      } catch (const std::exception& error) {  // one bad row must not stop the others
        job.error = error.what();
      }
    }
  };
  const auto count = static_cast<std::int64_t>(jobs.size());
  if (pool_ != nullptr && count > 1) {
    pool_->parallel_for(count, 1, run);
  } else {
    run(0, count, 0);
  }
}

}  // namespace deepinfer
