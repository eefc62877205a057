// Random arrivals, lengths, aborts and block counts against the invariants of engine.md 17 that
// concern planning: 1-8 and 10.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "scheduler/scheduler.h"

namespace deepinfer {
namespace {

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) : random_(seed) {
    options_.max_num_seqs = pick(1, 8);
    options_.max_num_batched_tokens = options_.max_num_seqs + pick(0, 40);
    options_.max_logits_rows = options_.max_num_seqs + pick(0, 20);
    options_.tokens_per_block = 1 << pick(0, 4);
    options_.max_model_len = pick(1, 120);
    const int needed =
        (options_.max_model_len + options_.tokens_per_block - 1) / options_.tokens_per_block;
    options_.num_blocks = needed + pick(0, 3 * needed);
    options_.chunked_prefill = pick(0, 3) > 0;
    scheduler_ = std::make_unique<Scheduler>(options_);
  }

  void run(int requests) {
    int steps = 0;
    while (added_ < requests || !scheduler_->idle()) {
      if (added_ < requests && pick(0, 2) > 0) add();
      if (pick(0, 15) == 0) abort_one();
      step();
      if (::testing::Test::HasFatalFailure()) return;
      ASSERT_LT(++steps, 200000) << "no progress";
    }
    EXPECT_EQ(finished_ + aborted_, added_);                         // 1: one result each
    EXPECT_EQ(scheduler_->blocks_available(), options_.num_blocks);  // 2: zero used when idle
    EXPECT_EQ(scheduler_->slots_available(), options_.max_num_seqs);
  }

  std::uint64_t preemptions() const { return scheduler_->preemptions(); }

 private:
  struct Expected {
    int tokens_left = 0;  ///< output tokens until it ends by itself
    int len = 0;
  };

  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  void add() {
    int longest = options_.max_model_len;
    if (!options_.chunked_prefill) longest = std::min(longest, options_.max_num_batched_tokens);
    SequenceSpec spec;
    spec.prompt_len = pick(1, longest);
    spec.all_logits = pick(0, 4) == 0;
    const SeqId id = scheduler_->add(spec);
    expected_[id] = {pick(1, 60), spec.prompt_len};
    ++added_;
  }

  void abort_one() {
    const auto ids = scheduler_->sequences();
    if (ids.empty()) return;
    const SeqId id = ids[static_cast<std::size_t>(pick(0, static_cast<int>(ids.size()) - 1))];
    scheduler_->abort(id);
    expected_.erase(id);
    ++aborted_;
  }

  void step() {
    const bool idle = scheduler_->idle();
    const SeqId oldest = idle ? SeqId{} : expected_.begin()->first;
    const StepPlan& plan = scheduler_->plan();
    EXPECT_EQ(plan.empty(), idle);
    if (plan.empty()) return;
    check_plan(plan);
    // 8: the oldest sequence advances in every step.
    EXPECT_TRUE(std::any_of(plan.groups.begin(), plan.groups.end(),
                            [&](const RowGroup& group) { return group.sequence == oldest; }));
    std::vector<GroupOutcome> outcomes;
    for (const RowGroup& group : plan.groups) {
      GroupOutcome outcome;
      if (group.completes) {
        Expected& expected = expected_.at(group.sequence);
        outcome.appended = true;
        ++expected.len;
        --expected.tokens_left;
        outcome.finished = expected.tokens_left == 0 || expected.len > options_.max_model_len;
        if (outcome.finished) {
          expected_.erase(group.sequence);
          ++finished_;
        }
      }
      outcomes.push_back(outcome);
    }
    scheduler_->commit(outcomes);
    check_state();
  }

  void check_plan(const StepPlan& plan) {
    // 5: limits.
    ASSERT_LE(plan.total_rows, options_.max_num_batched_tokens);
    ASSERT_LE(plan.total_logits_rows, options_.max_logits_rows);
    ASSERT_LE(static_cast<int>(plan.groups.size()), options_.max_num_seqs);
    int row = 0;
    std::set<SeqId> seen;
    for (std::size_t i = 0; i < plan.groups.size(); ++i) {
      const RowGroup& group = plan.groups[i];
      ASSERT_EQ(group.first_row, row);
      ASSERT_GE(group.rows, 1);
      ASSERT_LE(group.logits_rows, group.rows);
      ASSERT_TRUE(seen.insert(group.sequence).second);
      row += group.rows;
      const Scheduler::View view = scheduler_->view(group.sequence);
      ASSERT_EQ(group.start, view.computed);
      ASSERT_EQ(group.state_slot, view.state_slot);
      ASSERT_EQ(group.completes, group.start + group.rows == view.len);
      ASSERT_TRUE(!group.completes || group.logits_rows >= 1);
      ASSERT_LE(group.start + group.rows, options_.max_model_len);  // 7
      // 4: exactly the blocks that the positions need.
      const int needed =
          (group.start + group.rows + options_.tokens_per_block - 1) / options_.tokens_per_block;
      ASSERT_EQ(static_cast<int>(view.blocks.size()), needed);
      ASSERT_LE(needed, plan.max_blocks);
      for (int block = 0; block < plan.max_blocks; ++block) {
        const std::int32_t id = plan.block_table[i * static_cast<std::size_t>(plan.max_blocks) +
                                                 static_cast<std::size_t>(block)];
        ASSERT_EQ(id, block < needed ? view.blocks[static_cast<std::size_t>(block)] : 0);
      }
    }
    ASSERT_EQ(row, plan.total_rows);
    // 10: a free slot is used when the head of the queue fits; else a limit was in its way.
    check_accounting();
  }

  void check_accounting() {
    // 2, 3: every block and slot has one owner, none is lost, id 0 isn't used.
    std::set<std::int32_t> blocks;
    std::set<std::int32_t> slots;
    SeqId youngest_running{};
    SeqId oldest_waiting{~0ULL};
    for (const SeqId id : scheduler_->sequences()) {
      const Scheduler::View view = scheduler_->view(id);
      for (const std::int32_t block : view.blocks) {
        ASSERT_GE(block, 1);
        ASSERT_TRUE(blocks.insert(block).second);
      }
      if (view.state_slot != 0) {
        ASSERT_TRUE(slots.insert(view.state_slot).second);
        youngest_running = std::max(youngest_running, id);
      } else {
        ASSERT_TRUE(view.blocks.empty());
        ASSERT_EQ(view.computed, 0);
        oldest_waiting = std::min(oldest_waiting, id);
      }
    }
    ASSERT_EQ(scheduler_->blocks_available() + static_cast<int>(blocks.size()),
              options_.num_blocks);
    ASSERT_EQ(scheduler_->slots_available() + static_cast<int>(slots.size()),
              options_.max_num_seqs);
    ASSERT_LT(youngest_running, oldest_waiting);  // 5: first come, first served
  }

  void check_state() {
    check_accounting();
    for (const SeqId id : scheduler_->sequences()) {
      const Scheduler::View view = scheduler_->view(id);
      ASSERT_EQ(view.len, expected_.at(id).len);
      ASSERT_LT(view.computed, view.len);  // 6
    }
  }

  std::mt19937_64 random_;
  SchedulerOptions options_;
  std::unique_ptr<Scheduler> scheduler_;
  std::map<SeqId, Expected> expected_;
  int added_ = 0;
  int finished_ = 0;
  int aborted_ = 0;
};

TEST(SchedulerSimulation, InvariantsHoldForRandomLoads) {
  std::uint64_t preemptions = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation simulation(seed);
    simulation.run(40);
    preemptions += simulation.preemptions();
    if (HasFailure()) return;
  }
  EXPECT_GT(preemptions, 100U) << "the loads are too light to test preemption";
}

TEST(SchedulerSimulation, AFreedSlotIsReusedByTheNextPlan) {
  SchedulerOptions options;
  options.max_num_seqs = 2;
  options.max_num_batched_tokens = 64;
  options.max_logits_rows = 64;
  options.max_model_len = 32;
  options.tokens_per_block = 4;
  options.num_blocks = 100;
  Scheduler scheduler(options);
  for (int i = 0; i < 10; ++i) scheduler.add({8});
  for (int step = 0; step < 10; ++step) {
    const StepPlan& plan = scheduler.plan();
    if (plan.empty()) break;
    EXPECT_EQ(plan.groups.size(), 2U);
    // The first of the two ends in every step.
    std::vector<GroupOutcome> outcomes(plan.groups.size(), GroupOutcome{true, false});
    outcomes[0].finished = true;
    scheduler.commit(outcomes);
    if (scheduler.waiting() == 0) break;
  }
}

}  // namespace
}  // namespace deepinfer
