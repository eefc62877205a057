#include "scheduler/scheduler.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace deepinfer {
namespace {

void require(bool holds, const std::string& message) {
  if (!holds) fail_argument(message);
}

SchedulerOptions checked(const SchedulerOptions& options) {
  const auto text = [](std::int32_t value) { return std::to_string(value); };
  require(options.max_num_seqs >= 1,
          "max_num_seqs must be at least 1, got " + text(options.max_num_seqs));
  require(options.max_num_batched_tokens >= options.max_num_seqs,
          "max_num_batched_tokens must be at least max_num_seqs (" + text(options.max_num_seqs) +
              "), got " + text(options.max_num_batched_tokens));
  require(options.max_logits_rows >= options.max_num_seqs,
          "max_logits_rows must be at least max_num_seqs (" + text(options.max_num_seqs) +
              "), got " + text(options.max_logits_rows));
  require(options.max_model_len >= 1,
          "max_model_len must be at least 1, got " + text(options.max_model_len));
  require(options.tokens_per_block >= 1,
          "tokens_per_block must be at least 1, got " + text(options.tokens_per_block));
  const std::int64_t needed =
      (static_cast<std::int64_t>(options.max_model_len) + options.tokens_per_block - 1) /
      options.tokens_per_block;
  require(options.num_blocks >= needed,
          "the cache has " + text(options.num_blocks) + " blocks of " +
              text(options.tokens_per_block) + " tokens; one sequence of max_model_len " +
              text(options.max_model_len) + " needs " + std::to_string(needed));
  return options;
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(checked(options)), blocks_(options.num_blocks), slots_(options.max_num_seqs) {}

std::int32_t Scheduler::blocks_for(std::int32_t tokens) const {
  return (tokens + options_.tokens_per_block - 1) / options_.tokens_per_block;
}

SeqId Scheduler::add(const SequenceSpec& spec) {
  require(spec.prompt_len >= 1 && spec.prompt_len <= options_.max_model_len,
          "a prompt must have 1 .. " + std::to_string(options_.max_model_len) + " tokens, got " +
              std::to_string(spec.prompt_len));
  require(options_.chunked_prefill || spec.prompt_len <= options_.max_num_batched_tokens,
          "without chunked prefill a prompt must fit max_num_batched_tokens (" +
              std::to_string(options_.max_num_batched_tokens) + "), got " +
              std::to_string(spec.prompt_len) + " tokens");
  const SeqId id{next_id_++};
  Sequence sequence;
  sequence.len = spec.prompt_len;
  sequence.prompt_len = spec.prompt_len;
  sequence.all_logits = spec.all_logits;
  sequences_.emplace(id, std::move(sequence));
  waiting_.insert(id);
  return id;
}

const StepPlan& Scheduler::plan() {
  if (in_flight_) fail_internal("a step was planned before the last one was committed");
  ++plan_.id;
  plan_.groups.clear();
  plan_.preempted.clear();
  plan_.total_rows = 0;
  plan_.total_logits_rows = 0;
  plan_decodes();
  plan_chunks();
  // What was preempted for want of memory would be preempted again at once.
  if (plan_.preempted.empty()) admit();
  write_block_table();
  in_flight_ = !plan_.groups.empty();
  if (plan_.groups.empty() && !sequences_.empty())
    fail_internal("the scheduler found nothing to do");
  return plan_;
}

void Scheduler::plan_decodes() {
  // By id, since preemption removes from the end while this walks; only younger ones than the
  // sequence at hand, or itself, can vanish.
  for (auto next = running_.begin(); next != running_.end();) {
    const SeqId id = *next;
    Sequence& sequence = sequences_.at(id);
    if (sequence.len - sequence.computed == 1 && make_room(id)) plan_group(id, 1);
    next = running_.upper_bound(id);
  }
}

/// Frees memory for one more position of a running sequence. False when it had to give up its own.
bool Scheduler::make_room(SeqId id) {
  const Sequence& sequence = sequences_.at(id);
  const auto held = static_cast<std::int32_t>(sequence.blocks.size());
  while (blocks_for(sequence.computed + 1) > held + sequence.promised && unpromised() < 1) {
    const bool itself = *running_.rbegin() == id;
    preempt_youngest();
    if (itself) return false;
  }
  return true;
}

void Scheduler::preempt_youngest() {
  const SeqId id = *running_.rbegin();
  Sequence& sequence = sequences_.at(id);
  release(sequence);
  sequence.computed = 0;
  running_.erase(id);
  waiting_.insert(id);
  plan_.preempted.push_back(id);
  ++preemptions_;
}

/// Rows of the sequence's next chunk within what the step has left; 0 when it can't run.
std::int32_t Scheduler::chunk_rows(const Sequence& sequence) const {
  const std::int32_t budget = options_.max_num_batched_tokens - plan_.total_rows;
  const std::int32_t logits = options_.max_logits_rows - plan_.total_logits_rows;
  const std::int32_t missing = sequence.len - sequence.computed;
  std::int32_t rows = std::min(missing, budget);
  // A recomputed sequence can be longer than a step: only what can fit one is kept whole.
  const bool whole = !options_.chunked_prefill && sequence.len <= options_.max_num_batched_tokens;
  if (whole && rows < missing) return 0;
  if (logits_rows(sequence, rows) > logits) {
    // Without room for the last row's logits a chunk may still end before it.
    rows = sequence.all_logits ? std::min(rows, logits) : std::min(rows, missing - 1);
    if (whole && !sequence.all_logits) return 0;
  }
  return std::max(rows, 0);
}

std::int32_t Scheduler::logits_rows(const Sequence& sequence, std::int32_t rows) const {
  // A recomputed prompt asks again; who reads the logits knows what it has already.
  if (sequence.all_logits && sequence.computed < sequence.prompt_len) return rows;
  return sequence.computed + rows == sequence.len ? 1 : 0;
}

void Scheduler::plan_chunks() {
  for (const SeqId id : running_) {
    const Sequence& sequence = sequences_.at(id);
    if (sequence.len - sequence.computed == 1) continue;  // planned above
    const std::int32_t rows = chunk_rows(sequence);
    if (rows > 0) plan_group(id, rows);
  }
}

void Scheduler::admit() {
  while (!waiting_.empty() && slots_.available() > 0) {
    const SeqId id = *waiting_.begin();
    Sequence& sequence = sequences_.at(id);
    // Never more than max_model_len positions are computed, so no block beyond is needed.
    const std::int32_t needed = blocks_for(std::min(sequence.len + 1, options_.max_model_len));
    const std::int32_t rows = chunk_rows(sequence);
    if (rows == 0 || unpromised() < needed) return;  // in order of arrival: nobody overtakes
    waiting_.erase(waiting_.begin());
    running_.insert(id);
    sequence.slot = slots_.allocate();
    sequence.promised = needed;
    promised_ += needed;
    plan_group(id, rows);
  }
}

void Scheduler::plan_group(SeqId id, std::int32_t rows) {
  Sequence& sequence = sequences_.at(id);
  RowGroup group;
  group.sequence = id;
  group.first_row = plan_.total_rows;
  group.rows = rows;
  group.start = sequence.computed;
  group.state_slot = sequence.slot;
  group.logits_rows = logits_rows(sequence, rows);
  group.completes = sequence.computed + rows == sequence.len;
  take_blocks(sequence, sequence.computed + rows);
  sequence.planned = rows;
  plan_.total_rows += rows;
  plan_.total_logits_rows += group.logits_rows;
  plan_.groups.push_back(group);
}

void Scheduler::take_blocks(Sequence& sequence, std::int32_t positions) {
  const std::int32_t wanted = blocks_for(positions);
  while (static_cast<std::int32_t>(sequence.blocks.size()) < wanted) {
    sequence.blocks.push_back(blocks_.allocate());
    if (sequence.promised > 0) {
      --sequence.promised;
      --promised_;
    }
  }
}

void Scheduler::release(Sequence& sequence) {
  for (const std::int32_t block : sequence.blocks) blocks_.release(block);
  sequence.blocks.clear();
  promised_ -= sequence.promised;
  sequence.promised = 0;
  if (sequence.slot != 0) slots_.release(sequence.slot);
  sequence.slot = 0;
}

void Scheduler::write_block_table() {
  std::size_t width = 1;
  for (const RowGroup& group : plan_.groups) {
    width = std::max(width, sequences_.at(group.sequence).blocks.size());
  }
  plan_.max_blocks = static_cast<std::int32_t>(width);
  plan_.block_table.assign(plan_.groups.size() * width, 0);
  for (std::size_t i = 0; i < plan_.groups.size(); ++i) {
    const auto& blocks = sequences_.at(plan_.groups[i].sequence).blocks;
    std::copy(blocks.begin(), blocks.end(),
              plan_.block_table.begin() + static_cast<std::ptrdiff_t>(i * width));
  }
}

void Scheduler::commit(std::span<const GroupOutcome> outcomes) {
  if (!in_flight_ || outcomes.size() != plan_.groups.size()) {
    fail_internal("the outcomes aren't those of the planned step");
  }
  in_flight_ = false;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const SeqId id = plan_.groups[i].sequence;
    Sequence& sequence = sequences_.at(id);
    sequence.computed += sequence.planned;
    sequence.planned = 0;
    if (outcomes[i].appended) {
      if (!plan_.groups[i].completes) fail_internal("a token was appended before its prompt's end");
      ++sequence.len;
    }
    if (outcomes[i].finished) {
      release(sequence);
      running_.erase(id);
      sequences_.erase(id);
    } else if (sequence.computed >= sequence.len || sequence.len > options_.max_model_len) {
      fail_internal("a sequence has nothing left to compute and isn't finished");
    }
  }
}

void Scheduler::rollback() {
  in_flight_ = false;
  for (const RowGroup& group : plan_.groups) sequences_.at(group.sequence).planned = 0;
}

void Scheduler::abort(SeqId id) {
  if (in_flight_) fail_internal("a sequence was aborted between plan and commit");
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  release(found->second);
  running_.erase(id);
  waiting_.erase(id);
  sequences_.erase(found);
}

Scheduler::View Scheduler::view(SeqId id) const {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) fail_internal("unknown sequence");
  const Sequence& sequence = found->second;
  return {sequence.len, sequence.computed, sequence.slot, sequence.blocks};
}

std::vector<SeqId> Scheduler::sequences() const {
  std::vector<SeqId> ids;
  ids.reserve(sequences_.size());
  for (const auto& [id, sequence] : sequences_) ids.push_back(id);
  return ids;
}

}  // namespace deepinfer
