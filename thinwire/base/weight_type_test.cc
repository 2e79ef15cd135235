#include "thinwire/base/weight_type.h"

#include <gtest/gtest.h>

#include "thinwire/base/error.h"

namespace thinwire {
namespace {

TEST(WeightType, NamesAndNumbersLeadBack) {
  for (const WeightType type : AllWeightTypes()) {
    EXPECT_EQ(WeightTypeNamed(NameOf(type)), type);
    EXPECT_EQ(WeightTypeNumbered(static_cast<uint32_t>(type)), type);
  }
  EXPECT_EQ(WeightTypeNamed("q4_k"), WeightType::kQ4_K);
  EXPECT_EQ(WeightTypeNamed("Q4"), std::nullopt);
}

// Numbers of types that were removed from the format must not be guessed.
TEST(WeightType, RemovedAndUnknownNumbersAreNone) {
  for (const uint32_t number : {4u, 5u, 9u, 15u, 31u, 32u, 33u, 36u, 37u, 38u, 999u, ~0u}) {
    EXPECT_EQ(WeightTypeNumbered(number), std::nullopt) << number;
  }
}

TEST(WeightType, BytesAreCountedInBlocks) {
  EXPECT_EQ(WeightBytes(WeightType::kQ4_1, 576, "w"), 18 * 20);
  EXPECT_EQ(WeightBytes(WeightType::kQ6_K, 512, "w"), 2 * 210);
  EXPECT_EQ(WeightBytes(WeightType::kBF16, 3, "w"), 6);
  EXPECT_EQ(WeightBytes(WeightType::kMXFP4, 0, "w"), 0);
  EXPECT_THROW(WeightBytes(WeightType::kQ4_K, 576, "w"), UsageError);
  EXPECT_THROW(WeightBytes(WeightType::kF32, -1, "w"), UsageError);
  EXPECT_THROW(WeightBytes(WeightType::kF32, INT64_MAX / 2, "w"), UsageError);
}

}  // namespace
}  // namespace thinwire
