#pragma once

#include <cstdint>
#include <vector>

namespace deepinfer {

/// Identity of a sequence in the scheduler. Grows with arrival and is never reused, so that it is
/// also the order of service.
enum class SeqId : std::uint64_t {};

/// The rows of one sequence in a step: positions [start, start + rows). A decode row and a prefill
/// chunk differ in `rows` only.
struct RowGroup {
  SeqId sequence{};
  std::int32_t first_row = 0;
  std::int32_t rows = 0;
  std::int32_t start = 0;
  std::int32_t state_slot = 0;
  std::int32_t logits_rows = 0;  ///< so many rows at the end of the group want logits
  bool completes = false;        ///< the last row predicts the sequence's next token
};

/// What one step computes, as flat arrays. Reused from step to step.
struct StepPlan {
  std::uint64_t id = 0;
  std::vector<RowGroup> groups;
  std::int32_t total_rows = 0;
  std::int32_t total_logits_rows = 0;
  /// [groups, max_blocks], row-major; entries beyond a sequence's blocks are 0 and never read.
  std::vector<std::int32_t> block_table;
  std::int32_t max_blocks = 0;
  /// Sequences that lost their memory to make room. They wait, and are computed again from the
  /// start.
  std::vector<SeqId> preempted;

  bool empty() const { return groups.empty(); }
};

/// What became of a group, for Scheduler::commit.
struct GroupOutcome {
  bool appended = false;  ///< the sequence got its next token
  bool finished = false;  ///< and ends here: its memory is free
};

}  // namespace deepinfer
