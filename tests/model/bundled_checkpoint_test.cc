// The bundled checkpoint against its trainer's own model definition (tools/tiny/model.py): a
// second, independent statement of model.md, in PyTorch.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/safetensors.h"
#include "model/model_harness.h"
#include "ops/ops.h"

namespace deepinfer {
namespace {

using testing::LoadedModel;
using testing::ModelHarness;

const std::string kTiny = std::string(DEEPINFER_MODELS_DIR) + "/tiny";

template <typename T>
std::vector<T> read(const SafetensorsFile& file, const std::string& name, DType dtype) {
  const TensorView view = file.tensor(name);
  EXPECT_EQ(view.dtype, dtype) << name;
  std::vector<T> values(static_cast<std::size_t>(view.shape.elements()));
  std::memcpy(values.data(), view.data, values.size() * sizeof(T));
  return values;
}

double log_probability(const std::vector<float>& row, TokenId token) {
  const double max = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float value : row) sum += std::exp(value - max);
  return row[static_cast<std::size_t>(token)] - max - std::log(sum);
}

TEST(BundledCheckpoint, GivesTheTrainersLogitsAndLogProbabilities) {
  const LoadedModel loaded(kTiny);
  const SafetensorsFile reference(kTiny + "/reference/exact.safetensors");
  ThreadPool pool(2);
  const auto ops = make_cpu_ops(pool);
  for (const std::string name : {"prose", "recall", "tool", "add_thinking"}) {
    const auto wide = read<std::int64_t>(reference, name + ".input_ids", DType::kI64);
    const std::vector<TokenId> ids(wide.begin(), wide.end());
    ModelHarness::Options options;
    options.max_length = 2048;
    options.max_tokens = 2048;
    const auto rows = ModelHarness(loaded, *ops, options).run(ids, {257});

    const auto logprobs = read<float>(reference, name + ".logprobs", DType::kF32);
    ASSERT_EQ(logprobs.size() + 1, ids.size());
    for (std::size_t i = 0; i < logprobs.size(); ++i) {
      ASSERT_NEAR(log_probability(rows[i], ids[i + 1]), logprobs[i], 1e-4) << name << " " << i;
    }
    const auto logits = read<float>(reference, name + ".logits_last4", DType::kF32);
    const std::size_t vocabulary = rows.front().size();
    ASSERT_EQ(logits.size(), 4 * vocabulary);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const float got = rows[rows.size() - 4 + i / vocabulary][i % vocabulary];
      ASSERT_NEAR(got, logits[i], 2e-4 + 1e-4 * std::fabs(logits[i])) << name << " " << i;
    }
  }
}

}  // namespace
}  // namespace deepinfer
