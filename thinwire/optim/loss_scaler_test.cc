#include "thinwire/optim/loss_scaler.h"

#include <gtest/gtest.h>

#include "thinwire/base/error.h"

namespace thinwire::optim {
namespace {

TEST(LossScaler, HalvesAtOnceAndDoublesAfterAnInterval) {
  LossScaler scaler(true);
  EXPECT_EQ(scaler.scale(), 65536);
  scaler.Update(false);
  EXPECT_EQ(scaler.scale(), 32768);
  for (int64_t i = 0; i + 1 < LossScaler::kGrowthInterval; ++i) scaler.Update(true);
  EXPECT_EQ(scaler.scale(), 32768);
  scaler.Update(true);
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_EQ(scaler.state().good_steps, 0);
}

TEST(LossScaler, ABadStepStartsTheIntervalAgain) {
  LossScaler scaler(true);
  for (int64_t i = 0; i + 1 < LossScaler::kGrowthInterval; ++i) scaler.Update(true);
  scaler.Update(false);
  scaler.Update(true);
  EXPECT_EQ(scaler.scale(), 32768);
}

TEST(LossScaler, HasACeiling) {
  LossScaler scaler(true);
  scaler.Restore({LossScaler::kLargest, LossScaler::kGrowthInterval - 1});
  scaler.Update(true);
  EXPECT_EQ(scaler.scale(), LossScaler::kLargest);
}

TEST(LossScaler, TheFloorIsAnErrorThatNamesTheSetting) {
  LossScaler scaler(true);
  for (int i = 0; i < 16; ++i) scaler.Update(false);
  EXPECT_EQ(scaler.scale(), 1);
  try {
    scaler.Update(false);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(
        error.what(),
        "the gradients hold inf or NaN even at a loss scale of 1, so they do not fit fp16: "
        "set training.compute to bf16");
  }
}

TEST(LossScaler, OffIsOneForEver) {
  LossScaler scaler(false);
  for (int i = 0; i < 100; ++i) scaler.Update(false);
  EXPECT_EQ(scaler.scale(), 1);
}

}  // namespace
}  // namespace thinwire::optim
