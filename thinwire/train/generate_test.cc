#include "thinwire/train/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "thinwire/base/error.h"

namespace thinwire::train {
namespace {

TEST(SampleTokenTest, ZeroTemperatureTakesTheLikeliest) {
  const std::vector<float> logits = {1, 3, 3, 2};
  EXPECT_EQ(SampleToken(logits, {.temperature = 0}, 0), 1);
}

TEST(SampleTokenTest, DrawsFollowTheProbabilities) {
  const std::vector<float> logits = {0, std::log(2.0f), std::log(5.0f)};
  std::map<int64_t, int> counts;
  for (int64_t i = 0; i < 8000; ++i) {
    ++counts[SampleToken(logits, {.temperature = 1, .top_k = 0, .seed = 3}, i)];
  }
  // 1 : 2 : 5; three standard deviations of a count of 1000 are 90.
  EXPECT_NEAR(counts[0], 1000, 100);
  EXPECT_NEAR(counts[1], 2000, 130);
  EXPECT_NEAR(counts[2], 5000, 150);
}

TEST(SampleTokenTest, TopKLeavesOutTheRest) {
  const std::vector<float> logits = {1, 2, 3, 4};
  for (int64_t i = 0; i < 200; ++i) {
    EXPECT_GE(SampleToken(logits, {.temperature = 100, .top_k = 2}, i), 2);
  }
}

TEST(SampleTokenTest, SeedsGiveOtherTexts) {
  const std::vector<float> logits(50, 0);
  int same = 0;
  for (int64_t i = 0; i < 100; ++i) {
    same += SampleToken(logits, {.seed = 1}, i) == SampleToken(logits, {.seed = 2}, i);
  }
  EXPECT_LT(same, 20);
}

TEST(GeneratorTest, ADirectoryWithoutACheckpointIsNamed) {
  EXPECT_THROW(Generator("/nonexistent"), UsageError);
  try {
    Generator generator(testing::TempDir());
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("holds no complete checkpoint"), std::string::npos);
  }
}

}  // namespace
}  // namespace thinwire::train
