// Mixture of experts: the step's (token, slot) pairs are grouped by expert, so that each expert's
// weights are read once. Both passes are split over rows of all experts alike, which balances the
// threads whatever the routing.

#include <algorithm>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/vector_kernels.h"

namespace deepinfer {
namespace {

/// Rows worked on at a time, a multiple of 32 (tiles of FP8 scales): long enough to make the
/// preparation of an expert's tokens cheap beside it, short enough to give every thread some.
std::int64_t block_rows(std::int64_t rows, std::int64_t threads) {
  return std::clamp<std::int64_t>(rows / (threads * 4) / 32 * 32, 32, 128);
}

}  // namespace

void CpuOps::plan_moe(ConstMatrix x, std::span<const std::int32_t> experts,
                      std::span<const float> weights, std::int64_t top_k, const ExpertArray& routed,
                      const ExpertWeights& shared) {
  const std::int64_t tokens = x.rows;
  const std::int64_t pairs = tokens * top_k;
  MoePlan& plan = moe_;
  plan.width = shared.gate.rows;
  plan.jobs.clear();
  plan.used.clear();
  plan.jobs.push_back({&shared, 0, tokens});
  plan.position.resize(static_cast<std::size_t>(pairs));
  plan.expert_start.assign(routed.experts.size() + 1, 0);
  for (std::int64_t p = 0; p < pairs; ++p) {
    ++plan.expert_start[static_cast<std::size_t>(experts[static_cast<std::size_t>(p)]) + 1];
  }
  std::int64_t start = tokens;
  for (std::size_t e = 0; e < routed.experts.size(); ++e) {
    const std::int64_t count = plan.expert_start[e + 1];
    plan.expert_start[e] = start;
    if (count > 0) {
      plan.jobs.push_back({&routed.experts[e], start, count});
      plan.width = std::max(plan.width, routed.experts[e].gate.rows);
      plan.used.push_back(static_cast<std::int32_t>(e));
    }
    start += count;
  }
  const auto total = static_cast<std::size_t>(tokens + pairs);
  plan.x.resize(total);
  plan.weight.resize(total);
  plan.activation_rows.resize(total);
  plan.activation_in.resize(total);
  for (std::int64_t t = 0; t < tokens; ++t) {
    plan.x[static_cast<std::size_t>(t)] = x.row(t);
    plan.weight[static_cast<std::size_t>(t)] = 1.0F;
  }
  for (std::int64_t p = 0; p < pairs; ++p) {
    const auto pair = static_cast<std::size_t>(p);
    const std::int64_t place = plan.expert_start[static_cast<std::size_t>(experts[pair])]++;
    plan.position[pair] = place;
    plan.x[static_cast<std::size_t>(place)] = x.row(p / top_k);
    plan.weight[static_cast<std::size_t>(place)] = weights[pair];
  }
  float* const activation = plan.activation.reserve((tokens + pairs) * plan.width);
  for (std::size_t place = 0; place < total; ++place) {
    plan.activation_rows[place] = activation + static_cast<std::int64_t>(place) * plan.width;
    plan.activation_in[place] = plan.activation_rows[place];
  }
}

/// Rows [first, last) of gate and up of all experts, then the activation.
void CpuOps::moe_activations(std::int64_t first, std::int64_t last, float limit, Worker& own) {
  for (const MoePlan::Job& job : moe_.jobs) {
    const std::int64_t rows = std::min(last, job.expert->gate.rows) - first;
    if (rows <= 0) continue;  // an expert narrower than the widest
    float* const up = own.part.reserve(job.count * rows);
    float** const up_rows = own.part_rows.reserve(2 * job.count);
    float** const gate_rows = up_rows + job.count;
    const auto place = static_cast<std::size_t>(job.first);
    for (std::int64_t i = 0; i < job.count; ++i) {
      up_rows[i] = up + i * rows;
      gate_rows[i] = moe_.activation_rows[place + static_cast<std::size_t>(i)] + first;
    }
    const float* const* const x = moe_.x.data() + job.first;
    cpu::matmul_rows({job.expert->gate.rows_from(first, rows), x, gate_rows, job.count}, 0, rows,
                     own.matmul);
    cpu::matmul_rows({job.expert->up.rows_from(first, rows), x, up_rows, job.count}, 0, rows,
                     own.matmul);
    for (std::int64_t i = 0; i < job.count; ++i) {
      cpu::expert_activation(gate_rows[i], up_rows[i], rows, limit,
                             moe_.weight[place + static_cast<std::size_t>(i)]);
    }
  }
}

/// Columns [first, last) of y: the shared expert's, then each slot's in order.
void CpuOps::moe_outputs(std::int64_t first, std::int64_t last, std::int64_t top_k, Matrix y,
                         Worker& own) {
  const std::int64_t rows = last - first;
  const std::int64_t places = y.rows * (top_k + 1);
  float* const part = own.part.reserve(places * rows);
  float** const part_rows = own.part_rows.reserve(places);
  for (std::int64_t i = 0; i < places; ++i) {
    part_rows[i] = i < y.rows ? y.row(i) + first : part + i * rows;
  }
  for (const MoePlan::Job& job : moe_.jobs) {
    cpu::matmul_rows({job.expert->down.rows_from(first, rows),
                      moe_.activation_in.data() + job.first, part_rows + job.first, job.count},
                     0, rows, own.matmul);
  }
  for (std::int64_t t = 0; t < y.rows; ++t) {
    for (std::int64_t slot = 0; slot < top_k; ++slot) {
      const std::int64_t place = moe_.position[static_cast<std::size_t>(t * top_k + slot)];
      cpu::add_rows(y.row(t) + first, part_rows[place], rows);
    }
  }
}

void CpuOps::moe(ConstMatrix x, std::span<const std::int32_t> experts,
                 std::span<const float> weights, std::int64_t top_k, const ExpertArray& routed,
                 const ExpertWeights& shared, float limit, Matrix y) {
  plan_moe(x, experts, weights, top_k, routed, shared);
  if (routed.residency != nullptr) routed.residency->require(moe_.used);
  const auto in_blocks = [&](std::int64_t rows, auto&& body) {
    const std::int64_t block = block_rows(rows, pool_.threads());
    parallel((rows + block - 1) / block, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t b = begin; b < end; ++b) {
        body(b * block, std::min((b + 1) * block, rows), worker(thread));
      }
    });
  };
  in_blocks(moe_.width, [&](std::int64_t first, std::int64_t last, Worker& own) {
    moe_activations(first, last, limit, own);
  });
  in_blocks(y.cols, [&](std::int64_t first, std::int64_t last, Worker& own) {
    moe_outputs(first, last, top_k, y, own);
  });
}

}  // namespace deepinfer
