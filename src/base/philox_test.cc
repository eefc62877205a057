#include "base/philox.h"

#include <gtest/gtest.h>

namespace deepinfer {
namespace {

using Block = std::array<std::uint32_t, 4>;

// The known-answer tests that come with the algorithm's publication.
TEST(Philox, PublishedKnownAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffffU;
  EXPECT_EQ(philox4x32_10({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, StreamWalksBlocksOfASubsequence) {
  const std::uint64_t seed = 0x0123456789abcdefULL;
  const std::uint64_t subsequence = 0xfedcba9876543210ULL;
  PhiloxStream stream(seed, subsequence);
  for (std::uint32_t block = 0; block < 3; ++block) {
    const Block expected =
        philox4x32_10({block, 0, 0x76543210U, 0xfedcba98U}, {0x89abcdefU, 0x01234567U});
    for (const std::uint32_t word : expected) EXPECT_EQ(stream.next(), word);
  }
}

// engine.md 10.4
TEST(Philox, VectorsOfTheSpecification) {
  struct Case {
    std::uint64_t seed, subsequence;
    std::uint32_t x, y;
  };
  const Case cases[] = {{0, 0, 0x6627e8d5, 0xe169c58d},
                        {42, 30, 0x0d048bed, 0xde24129f},
                        {42, 31, 0x4429196d, 0xc9b8a7bf},
                        {42, 32, 0xa642fd96, 0x2ddfdd4b},
                        {42 + 1000000007ULL, 33, 0x87e64987, 0x951058b1},
                        {~0ULL, 3002, 0x9a2a76c7, 0x389b70c2}};
  for (const Case& test : cases) {
    PhiloxStream stream(test.seed, test.subsequence);
    EXPECT_EQ(stream.next(), test.x);
    EXPECT_EQ(stream.next(), test.y);
  }
}

}  // namespace
}  // namespace deepinfer
