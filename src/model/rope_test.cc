#include "model/rope.h"

#include <gtest/gtest.h>

#include <memory>

#include "ops/ops.h"

namespace deepinfer {
namespace {

TEST(Rope, ReproducesTheYarnFrequenciesOfTheReleasedModel) {
  ModelConfig config;
  config.qk_rope_head_dim = 64;
  config.compress_rope_theta = 160000;
  config.rope_scaling = {16, 32, 1, 65536};
  const std::vector<float> f = yarn_rope_frequencies(config);
  ASSERT_EQ(f.size(), 32U);
  const std::pair<int, double> expected[] = {
      {0, 1.0},          {1, 0.687656},     {15, 3.635539e-3}, {16, 2.265625e-3},
      {20, 2.969778e-4}, {24, 1.953125e-5}, {25, 5.372312e-6}, {31, 5.680529e-7}};
  for (const auto& [i, value] : expected) {
    EXPECT_NEAR(f[static_cast<std::size_t>(i)], value, 1e-6 * value) << i;
  }
}

TEST(Rope, RotatesTheWorkedExampleAndBack) {
  ModelConfig config;
  config.qk_rope_head_dim = 4;
  config.rope_theta = 10000;
  const std::vector<float> f = plain_rope_frequencies(config);
  std::vector<float> cos(2);
  std::vector<float> sin(2);
  const std::int32_t position = 3;
  fill_rope_angles({&position, 1}, f, {cos.data(), 1, 2}, {sin.data(), 1, 2});
  std::vector<float> x = {9, 1, 2, 3, 4};  // one untouched dimension before the rotary tail
  const auto ops = make_reference_ops();
  ops->rope({x.data(), 1, 5}, 1, {cos.data(), 1, 2}, {sin.data(), 1, 2}, false);
  const float expected[] = {9, -1.272233F, -1.838865F, 2.878668F, 4.088187F};
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(x[static_cast<std::size_t>(i)], expected[i], 2e-6);
  ops->rope({x.data(), 1, 5}, 1, {cos.data(), 1, 2}, {sin.data(), 1, 2}, true);
  const float original[] = {9, 1, 2, 3, 4};
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(x[static_cast<std::size_t>(i)], original[i], 2e-6);
}

}  // namespace
}  // namespace deepinfer
