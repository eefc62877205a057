#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "cache/plan/block_pool.h"
#include "scheduler/step_plan.h"

namespace deepinfer {

struct SchedulerOptions {
  std::int32_t max_num_seqs = 64;              ///< sequences with memory at once: state slots
  std::int32_t max_num_batched_tokens = 2048;  ///< rows of a step, >= max_num_seqs
  std::int32_t max_logits_rows = 2048;         ///< logits rows of a step, >= max_num_seqs
  std::int32_t max_model_len = 4096;           ///< positions a sequence may compute
  std::int32_t tokens_per_block = 128;
  std::int32_t num_blocks = 0;  ///< at least what one sequence of max_model_len needs
  bool chunked_prefill = true;  ///< false: a prompt is computed in one step
};

/// A new sequence as the scheduler sees it: lengths only.
struct SequenceSpec {
  std::int32_t prompt_len = 0;  ///< 1 .. max_model_len
  /// Logits are wanted at every row of the prompt (scores, prompt log-probabilities).
  bool all_logits = false;
};

/// Continuous batching: decides which sequences compute how many tokens in the next step, and which
/// blocks hold them. A pure function of its state and of what is committed: no tensors, threads,
/// clock or text.
///
/// Policy. Sequences are served in order of arrival. A step takes first one row of every sequence
/// that decodes, then prompt chunks of admitted sequences, then admits waiting ones, until a limit
/// is reached. A sequence is admitted when blocks for all its tokens and one more are free; blocks
/// are taken as positions are planned, the promise for the rest of the prompt is kept. When
/// decoding needs a block and none is free, the youngest sequence gives up its memory and waits at
/// the front (preemption by recomputation). So the oldest always advances: nothing starves, nothing
/// deadlocks.
class Scheduler {
 public:
  /// Throws Error(kInvalidArgument) naming the option when the limits don't fit together.
  explicit Scheduler(const SchedulerOptions& options);

  /// The sequence joins the end of the queue. Throws Error(kInvalidArgument) for a prompt that can
  /// never run.
  SeqId add(const SequenceSpec& spec);

  /// The next step. Empty only when there is no sequence. Valid until the next call; must be
  /// committed before it.
  const StepPlan& plan();

  /// Takes in the results of the last plan, one outcome a group.
  void commit(std::span<const GroupOutcome> outcomes);

  /// Forgets the plan that was made (its step failed): nothing was computed. Blocks that the plan
  /// took stay with their sequences.
  void rollback();

  /// Removes a sequence in any state and frees its memory; unknown ids are ignored. Not between
  /// plan and commit.
  void abort(SeqId id);

  bool idle() const { return sequences_.empty(); }
  std::size_t running() const { return running_.size(); }
  std::size_t waiting() const { return waiting_.size(); }
  std::uint64_t preemptions() const { return preemptions_; }

  /// One sequence's bookkeeping, for the engine's checks and tests.
  struct View {
    std::int32_t len = 0;         ///< prompt and committed output tokens
    std::int32_t computed = 0;    ///< positions in the caches
    std::int32_t state_slot = 0;  ///< 0 while waiting
    std::span<const std::int32_t> blocks;
  };
  /// Throws Error(kInternal) for an unknown id.
  View view(SeqId id) const;
  std::vector<SeqId> sequences() const;
  std::int32_t blocks_available() const { return blocks_.available(); }
  std::int32_t slots_available() const { return slots_.available(); }

 private:
  struct Sequence {
    std::int32_t len = 0;
    std::int32_t computed = 0;
    std::int32_t planned = 0;   ///< rows in the plan that isn't committed
    std::int32_t promised = 0;  ///< blocks of the admission that aren't taken yet
    std::int32_t slot = 0;
    std::int32_t prompt_len = 0;
    bool all_logits = false;
    std::vector<std::int32_t> blocks;
  };

  std::int32_t blocks_for(std::int32_t tokens) const;
  /// Free blocks that aren't promised to an admitted sequence.
  std::int32_t unpromised() const { return blocks_.available() - promised_; }
  std::int32_t chunk_rows(const Sequence& sequence) const;
  std::int32_t logits_rows(const Sequence& sequence, std::int32_t rows) const;
  void take_blocks(Sequence& sequence, std::int32_t positions);
  void release(Sequence& sequence);
  void preempt_youngest();
  bool make_room(SeqId id);
  void plan_group(SeqId id, std::int32_t rows);
  void plan_decodes();
  void plan_chunks();
  void admit();
  void write_block_table();

  SchedulerOptions options_;
  BlockPool blocks_;
  BlockPool slots_;
  std::map<SeqId, Sequence> sequences_;
  std::set<SeqId> waiting_;  ///< all younger than every running one
  std::set<SeqId> running_;
  std::int32_t promised_ = 0;
  std::uint64_t next_id_ = 1;
  std::uint64_t preemptions_ = 0;
  StepPlan plan_;
  bool in_flight_ = false;
};

}  // namespace deepinfer
