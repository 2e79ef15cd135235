#include "thinwire/base/random.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

namespace thinwire {
namespace {

// Initial weights and the order of the data hang on these: a change makes other runs.
TEST(Random, GoldenValues) {
  // The first outputs of SplitMix64 seeded with 0 and 1234567, as published with the generator.
  EXPECT_EQ(Mix64(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(Mix64(0x9e3779b97f4a7c15u), 0x6e789e6aa1b965f4u);
  EXPECT_EQ(Mix64(1234567), 6457827717110365317u);
  const CounterRandom random(42);
  EXPECT_EQ(random.Bits(0), 0x2733c88b3c78aa37u);
  EXPECT_EQ(random.Bits(1), 0x831e31c2402296e6u);
  EXPECT_EQ(random.Bits(uint64_t{1} << 63), 0x40a9869b2a9cae0bu);
  EXPECT_EQ(HashBytes("layers.0.attention.wq"), 0x69ccdf289fa3fd34u);
  EXPECT_DOUBLE_EQ(random.Uniform(7), 0.5839652934146794);
  EXPECT_DOUBLE_EQ(random.Normal(7), 1.6220904643645013);
}

TEST(Random, MomentsOfUniformAndNormal) {
  constexpr int kCount = 1 << 20;
  const CounterRandom random(9);
  double uniform[2] = {}, normal[4] = {}, lag = 0, before = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double u = random.Uniform(i), z = random.Normal(i);
    ASSERT_TRUE(u >= 0 && u < 1);
    uniform[0] += u;
    uniform[1] += u * u;
    for (double power = z; double& sum : normal) sum += power, power *= z;
    lag += before * z;
    before = z;
  }
  // Five standard errors: sd / 1024, with sd of z, z^2, z^3, z^4 = 1, sqrt 2, sqrt 15, sqrt 96.
  EXPECT_NEAR(uniform[0] / kCount, 0.5, 5 * 0.2887 / 1024);
  EXPECT_NEAR(uniform[1] / kCount, 1.0 / 3, 5 * 0.2981 / 1024);
  EXPECT_NEAR(normal[0] / kCount, 0, 5 * 1.0 / 1024);
  EXPECT_NEAR(normal[1] / kCount, 1, 5 * 1.4142 / 1024);
  EXPECT_NEAR(normal[2] / kCount, 0, 5 * 3.873 / 1024);
  EXPECT_NEAR(normal[3] / kCount, 3, 5 * 9.798 / 1024);
  EXPECT_NEAR(lag / kCount, 0, 5 * 1.0 / 1024);
}

// Neighbouring keys are neighbouring parameters; their streams must have nothing in common.
TEST(Random, NeighbouringKeysAndIndicesAreUnrelated) {
  std::set<uint64_t> seen;
  double flipped = 0;
  for (uint64_t key = 0; key < 64; ++key) {
    for (uint64_t index = 0; index < 64; ++index) {
      const uint64_t bits = CounterRandom(key).Bits(index);
      seen.insert(bits);
      flipped += std::popcount(bits ^ CounterRandom(key + 1).Bits(index));
      flipped += std::popcount(bits ^ CounterRandom(key).Bits(index + 1));
    }
  }
  EXPECT_EQ(seen.size(), 64u * 64u);
  EXPECT_NEAR(flipped / (2 * 64 * 64), 32, 5 * 4.0 / 90.5);  // sd of one count 4, of 8192 pairs
}

TEST(Random, HashTellsStringsApart) {
  EXPECT_NE(HashBytes("a"), HashBytes("b"));
  EXPECT_NE(HashBytes("ab"), HashBytes("ba"));
  EXPECT_NE(HashBytes(""), HashBytes(std::string_view("\0", 1)));
  EXPECT_NE(HashBytes("a", 1), HashBytes("a", 2));
  static_assert(HashBytes("x") == HashBytes("x"));
}

}  // namespace
}  // namespace thinwire
