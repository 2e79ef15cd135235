#include "thinwire/blocks/formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "thinwire/base/weight_type.h"

namespace thinwire::blocks {
namespace {

TEST(Formats, StructsAreAsLargeAsTheTypesBlocks) {
  EXPECT_EQ(BlockBytes(WeightType::kQ4_0), sizeof(BlockQ4_0));
  EXPECT_EQ(BlockBytes(WeightType::kQ4_1), sizeof(BlockQ4_1));
  EXPECT_EQ(BlockBytes(WeightType::kQ5_0), sizeof(BlockQ5_0));
  EXPECT_EQ(BlockBytes(WeightType::kQ5_1), sizeof(BlockQ5_1));
  EXPECT_EQ(BlockBytes(WeightType::kQ8_0), sizeof(BlockQ8_0));
  EXPECT_EQ(BlockBytes(WeightType::kQ2_K), sizeof(BlockQ2_K));
  EXPECT_EQ(BlockBytes(WeightType::kQ3_K), sizeof(BlockQ3_K));
  EXPECT_EQ(BlockBytes(WeightType::kQ4_K), sizeof(BlockQ4_K));
  EXPECT_EQ(BlockBytes(WeightType::kQ5_K), sizeof(BlockQ5_K));
  EXPECT_EQ(BlockBytes(WeightType::kQ6_K), sizeof(BlockQ6_K));
  EXPECT_EQ(BlockBytes(WeightType::kIQ4_NL), sizeof(BlockIQ4_NL));
  EXPECT_EQ(BlockBytes(WeightType::kMXFP4), sizeof(BlockMXFP4));
}

TEST(Formats, MXFP4ScalesArePowersOfTwo) {
  for (int e = 0; e < 256; ++e) {
    EXPECT_EQ(MXFP4Scale(static_cast<uint8_t>(e)), std::ldexp(1.0f, e - 128)) << e;
  }
}

TEST(Formats, PackedScalesComeBack) {
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    uint8_t group_scales[8];
    uint8_t group_mins[8];
    uint8_t bytes[12];
    for (uint8_t& x : group_scales) x = static_cast<uint8_t>(random() % 64);
    for (uint8_t& x : group_mins) x = static_cast<uint8_t>(random() % 64);
    PackGroups(group_scales, group_mins, bytes);
    for (int g = 0; g < 8; ++g) {
      EXPECT_EQ(GroupScale(bytes, g), group_scales[g]);
      EXPECT_EQ(GroupMin(bytes, g), group_mins[g]);
    }
    int8_t signed_scales[16];
    for (int8_t& x : signed_scales) x = static_cast<int8_t>(static_cast<int>(random() % 64) - 32);
    PackQ3_KScales(signed_scales, bytes);
    for (int g = 0; g < 16; ++g) EXPECT_EQ(Q3_KScale(bytes, g), signed_scales[g]);
  }
}

}  // namespace
}  // namespace thinwire::blocks
