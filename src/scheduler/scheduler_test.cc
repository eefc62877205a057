#include "scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace deepinfer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SchedulerOptions small_options() {
  SchedulerOptions options;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 16;
  options.max_logits_rows = 16;
  options.max_model_len = 64;
  options.tokens_per_block = 4;
  options.num_blocks = 64;
  return options;
}

/// Commits the last plan: every completed group gets its token.
void commit_tokens(Scheduler& scheduler, const StepPlan& plan) {
  std::vector<GroupOutcome> outcomes;
  for (const RowGroup& group : plan.groups) outcomes.push_back({group.completes, false});
  scheduler.commit(outcomes);
}

std::vector<int> rows_of(const StepPlan& plan) {
  std::vector<int> rows;
  for (const RowGroup& group : plan.groups) rows.push_back(group.rows);
  return rows;
}

TEST(Scheduler, MixesDecodeRowsAndPromptChunksInOneStep) {
  Scheduler scheduler(small_options());
  scheduler.add({5});
  commit_tokens(scheduler, scheduler.plan());
  scheduler.add({30});
  scheduler.add({4});

  const StepPlan& first = scheduler.plan();
  EXPECT_THAT(rows_of(first), ElementsAre(1, 15));  // decode first, then the chunk takes the rest
  EXPECT_EQ(first.groups[0].start, 5);
  EXPECT_TRUE(first.groups[0].completes);
  EXPECT_FALSE(first.groups[1].completes);
  EXPECT_EQ(first.groups[1].logits_rows, 0);
  EXPECT_EQ(first.total_rows, 16);
  EXPECT_EQ(first.total_logits_rows, 1);
  commit_tokens(scheduler, first);

  const StepPlan& second = scheduler.plan();
  EXPECT_THAT(rows_of(second), ElementsAre(1, 15));
  EXPECT_EQ(second.groups[1].start, 15);
  EXPECT_TRUE(second.groups[1].completes);
  commit_tokens(scheduler, second);

  EXPECT_THAT(rows_of(scheduler.plan()), ElementsAre(1, 1, 4));
}

TEST(Scheduler, AdmitsNothingWhenBlocksAreShort) {
  SchedulerOptions options = small_options();
  options.max_model_len = 16;
  options.num_blocks = 4;
  Scheduler scheduler(options);
  scheduler.add({8});  // two blocks, and one for the next token
  scheduler.add({7});  // would need two, one is left
  EXPECT_THAT(rows_of(scheduler.plan()), ElementsAre(8));
  EXPECT_EQ(scheduler.waiting(), 1U);
}

TEST(Scheduler, NobodyOvertakesTheHeadOfTheQueue) {
  SchedulerOptions options = small_options();
  options.max_model_len = 16;
  options.num_blocks = 4;
  Scheduler scheduler(options);
  scheduler.add({4});
  scheduler.add({11});  // doesn't fit now
  scheduler.add({1});   // would fit
  EXPECT_THAT(rows_of(scheduler.plan()), ElementsAre(4));
}

TEST(Scheduler, PreemptsTheYoungestWhenNoBlockIsLeft) {
  SchedulerOptions options = small_options();
  options.max_model_len = 16;
  options.num_blocks = 4;
  Scheduler scheduler(options);
  const SeqId old = scheduler.add({7});
  const SeqId young = scheduler.add({7});
  commit_tokens(scheduler, scheduler.plan());  // both hold two blocks
  commit_tokens(scheduler, scheduler.plan());  // position 7 fills them
  const StepPlan& plan = scheduler.plan();     // position 8 needs a third
  EXPECT_THAT(plan.preempted, ElementsAre(young));
  ASSERT_EQ(plan.groups.size(), 1U);
  EXPECT_EQ(plan.groups[0].sequence, old);
  EXPECT_EQ(scheduler.view(young).computed, 0);
  EXPECT_EQ(scheduler.view(young).len, 9);
  EXPECT_TRUE(scheduler.view(young).blocks.empty());
  EXPECT_EQ(scheduler.preemptions(), 1U);
  const std::vector<GroupOutcome> finished = {{true, true}};
  scheduler.commit(finished);
  // Its tokens are computed again, as one prompt.
  const StepPlan& again = scheduler.plan();
  ASSERT_EQ(again.groups.size(), 1U);
  EXPECT_EQ(again.groups[0].sequence, young);
  EXPECT_EQ(again.groups[0].rows, 9);
  EXPECT_TRUE(again.groups[0].completes);
}

TEST(Scheduler, PromisedBlocksAreNotGivenToOthers) {
  SchedulerOptions options = small_options();
  options.max_num_batched_tokens = 4;
  options.max_model_len = 16;
  options.num_blocks = 5;
  Scheduler scheduler(options);
  scheduler.add({15});  // four blocks in four steps
  scheduler.add({4});   // two blocks: one is unpromised
  for (int step = 0; step < 3; ++step) {
    const StepPlan& plan = scheduler.plan();
    ASSERT_EQ(plan.groups.size(), 1U);
    EXPECT_EQ(plan.groups[0].start, 4 * step);
    commit_tokens(scheduler, plan);
  }
}

TEST(Scheduler, WantsLogitsAtEveryRowOfAScoredPrompt) {
  SchedulerOptions options = small_options();
  options.max_logits_rows = 6;
  Scheduler scheduler(options);
  scheduler.add({10, true});
  const StepPlan& first = scheduler.plan();
  EXPECT_THAT(rows_of(first), ElementsAre(6));  // limited by logits rows
  EXPECT_EQ(first.groups[0].logits_rows, 6);
  commit_tokens(scheduler, first);
  const StepPlan& second = scheduler.plan();
  EXPECT_EQ(second.groups[0].logits_rows, 4);
  commit_tokens(scheduler, second);
  EXPECT_EQ(scheduler.plan().groups[0].logits_rows, 1);
}

TEST(Scheduler, WithoutChunkedPrefillPromptsStayWhole) {
  SchedulerOptions options = small_options();
  options.chunked_prefill = false;
  Scheduler scheduler(options);
  scheduler.add({10});
  scheduler.add({10});
  EXPECT_THAT(rows_of(scheduler.plan()), ElementsAre(10));
  EXPECT_THROW(scheduler.add({17}), Error);
}

TEST(Scheduler, AbortFreesMemoryInAnyState) {
  Scheduler scheduler(small_options());
  const SeqId running = scheduler.add({30});
  const SeqId waiting = scheduler.add({30});
  commit_tokens(scheduler, scheduler.plan());
  scheduler.abort(waiting);
  scheduler.abort(running);
  scheduler.abort(running);  // unknown by now
  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(scheduler.blocks_available(), 64);
  EXPECT_EQ(scheduler.slots_available(), 4);
  EXPECT_TRUE(scheduler.plan().empty());
}

TEST(Scheduler, RollbackRepeatsTheStep) {
  Scheduler scheduler(small_options());
  scheduler.add({20});
  const auto first = scheduler.plan().groups;
  scheduler.rollback();
  const StepPlan& again = scheduler.plan();
  ASSERT_EQ(again.groups.size(), first.size());
  EXPECT_EQ(again.groups[0].start, first[0].start);
  EXPECT_EQ(again.groups[0].rows, first[0].rows);
}

TEST(Scheduler, LimitsThatCannotWorkAreRefusedByName) {
  const auto message = [](auto&& change) {
    SchedulerOptions options = small_options();
    change(options);
    try {
      const Scheduler scheduler(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message([](auto& o) { o.max_num_seqs = 0; }), HasSubstr("max_num_seqs"));
  EXPECT_THAT(message([](auto& o) { o.max_num_batched_tokens = 3; }),
              HasSubstr("max_num_batched_tokens"));
  EXPECT_THAT(message([](auto& o) { o.max_logits_rows = 3; }), HasSubstr("max_logits_rows"));
  EXPECT_THAT(message([](auto& o) { o.max_model_len = 0; }), HasSubstr("max_model_len"));
  EXPECT_THAT(message([](auto& o) { o.num_blocks = 15; }), HasSubstr("needs 16"));
  Scheduler scheduler(small_options());
  EXPECT_THROW(scheduler.add({0}), Error);
  EXPECT_THROW(scheduler.add({65}), Error);
}

}  // namespace
}  // namespace deepinfer
