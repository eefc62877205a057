#include <algorithm>
#include <numeric>

#include "ops/cpu/cpu_ops.h"

namespace deepinfer {

void CpuOps::attention(ConstMatrix q, std::int64_t heads, const AttentionKeys& keys,
                       std::span<const float> sink, float scale, Matrix out) {
  // Few rows are split over heads as well: each part decodes the row's keys again, which costs
  // less than a twentieth of 32 heads' scores and sums.
  const std::int64_t threads = pool_.threads();
  const std::int64_t parts =
      q.rows >= threads
          ? 1
          : std::min(heads, (threads + q.rows - 1) / std::max<std::int64_t>(q.rows, 1));
  parallel(q.rows * parts, 1, [&](std::int64_t first, std::int64_t last, int thread) {
    for (std::int64_t unit = first; unit < last; ++unit) {
      const std::int64_t part = unit % parts;
      cpu::attention_heads(q, heads, keys, sink, scale, out, unit / parts, heads * part / parts,
                           heads * (part + 1) / parts, worker(thread).attention);
    }
  });
}

void CpuOps::list_entries(std::int64_t t, std::int32_t visible, const IndexSelectParams& params,
                          std::span<const std::int32_t> blocks,
                          std::vector<std::int32_t>& entries) {
  entries.clear();
  if (params.candidates != CandidateMode::kUse) {
    entries.resize(static_cast<std::size_t>(visible));
    std::iota(entries.begin(), entries.end(), 0);
    return;
  }
  const auto size = static_cast<std::int32_t>(params.candidate_block_size);
  const auto width = static_cast<std::size_t>(params.candidate_blocks);
  for (const std::int32_t block : blocks.subspan(static_cast<std::size_t>(t) * width, width)) {
    if (block < 0) break;
    const std::int32_t end = std::min((block + 1) * size, visible);
    for (std::int32_t e = block * size; e < end; ++e) entries.push_back(e);
  }
}

void CpuOps::select_entries(std::int64_t t, const IndexSelectParams& params,
                            std::span<std::int32_t> blocks, std::span<std::int32_t> selected,
                            Worker& worker) {
  const auto row = static_cast<std::size_t>(t);
  if (params.candidates == CandidateMode::kPublish) {
    const auto width = static_cast<std::size_t>(params.candidate_blocks);
    publish_blocks(worker.scores, params, blocks.subspan(row * width, width), worker.blocks);
  }
  worker.scored.resize(worker.entries.size());
  for (std::size_t i = 0; i < worker.entries.size(); ++i) {
    worker.scored[i] = {worker.scores[i], worker.entries[i]};
  }
  const auto top_k = static_cast<std::size_t>(params.top_k);
  keep_best(worker.scored, params.top_k, selected.subspan(row * top_k, top_k));
}

void CpuOps::index_select(ConstMatrix query, ConstMatrix weights, const PagedRows& keys,
                          std::span<const std::int32_t> sequence,
                          std::span<const std::int32_t> visible, const IndexSelectParams& params,
                          std::span<std::int32_t> blocks, std::span<std::int32_t> selected) {
  const auto score = [&](std::int64_t t, std::span<const std::int32_t> entries, float* scores,
                         Worker& own) {
    cpu::index_scores(query.row(t), weights.row(t), params, keys,
                      sequence[static_cast<std::size_t>(t)], entries, scores, own.index);
  };
  if (query.rows >= pool_.threads()) {
    parallel(query.rows, 1, [&](std::int64_t first, std::int64_t last, int thread) {
      Worker& own = worker(thread);
      for (std::int64_t t = first; t < last; ++t) {
        list_entries(t, visible[static_cast<std::size_t>(t)], params, blocks, own.entries);
        own.scores.resize(own.entries.size());
        score(t, own.entries, own.scores.data(), own);
        select_entries(t, params, blocks, selected, own);
      }
    });
    return;
  }
  // Fewer rows than threads: each row's entries are split instead.
  Worker& shared = worker(0);
  for (std::int64_t t = 0; t < query.rows; ++t) {
    list_entries(t, visible[static_cast<std::size_t>(t)], params, blocks, shared.entries);
    shared.scores.resize(shared.entries.size());
    parallel(static_cast<std::int64_t>(shared.entries.size()), 64,
             [&](std::int64_t first, std::int64_t last, int thread) {
               score(t,
                     std::span<const std::int32_t>(shared.entries)
                         .subspan(static_cast<std::size_t>(first),
                                  static_cast<std::size_t>(last - first)),
                     shared.scores.data() + first, worker(thread));
             });
    select_entries(t, params, blocks, selected, shared);
  }
}

}  // namespace deepinfer
