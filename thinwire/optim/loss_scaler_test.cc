#include "thinwire/optim/loss_scaler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string_view>

#include "thinwire/base/error.h"

namespace thinwire::optim {
namespace {

TEST(LossScaler, HalvesAtOnceAndDoublesAfterAnInterval) {
  LossScaler scaler(true);
  EXPECT_EQ(scaler.scale(), 65536);
  scaler.Update(false);
  EXPECT_EQ(scaler.scale(), 32768);
  for (int64_t i = 0; i + 1 < LossScaleOptions().window; ++i) scaler.Update(true);
  EXPECT_EQ(scaler.scale(), 32768);
  scaler.Update(true);
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_EQ(scaler.state().good_steps, 0);
}

TEST(LossScaler, ABadStepStartsTheIntervalAgain) {
  LossScaler scaler(true);
  for (int64_t i = 0; i + 1 < LossScaleOptions().window; ++i) scaler.Update(true);
  scaler.Update(false);
  scaler.Update(true);
  EXPECT_EQ(scaler.scale(), 32768);
}

TEST(LossScaler, HasACeiling) {
  LossScaler scaler(true);
  scaler.Restore({.scale = LossScaler::kLargest, .good_steps = LossScaleOptions().window - 1});
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

TEST(LossScaler, HysteresisLetsBadStepsPassUntilItDoubles) {
  LossScaler scaler(true, {.initial = 1024, .window = 3, .hysteresis = 3});
  const auto after = [&](bool finite) {
    scaler.Update(finite);
    return scaler.scale();
  };
  EXPECT_EQ(after(false), 1024);
  EXPECT_EQ(after(true), 1024);
  EXPECT_EQ(after(false), 1024);
  EXPECT_EQ(after(false), 512);  // good steps between them do not count
  EXPECT_EQ(after(false), 256);  // nor does the halving
  EXPECT_EQ(scaler.state().bad_steps, 2);
  for (int i = 0; i < 3; ++i) scaler.Update(true);
  EXPECT_EQ(scaler.scale(), 512);
  EXPECT_EQ(scaler.state().bad_steps, 0);
  EXPECT_EQ(after(false), 512);
}

TEST(LossScaler, OrUntilAGoodStep) {
  LossScaler scaler(true, {.initial = 1024, .hysteresis = 2, .each_good_step = true});
  for (int i = 0; i < 5; ++i) {
    scaler.Update(false);
    scaler.Update(true);
  }
  EXPECT_EQ(scaler.scale(), 1024);
  scaler.Update(false);
  scaler.Update(false);
  EXPECT_EQ(scaler.scale(), 512);
}

TEST(LossScaler, AFixedScaleStays) {
  LossScaler scaler(true, {.fixed = 128});
  for (int i = 0; i < 5000; ++i) scaler.Update(i < 2500);
  EXPECT_EQ(scaler.scale(), 128);
  scaler.Restore({.scale = 4});  // of a run that adapted it
  EXPECT_EQ(scaler.scale(), 128);
}

TEST(LossScaler, TheLeastScaleIsTheUsers) {
  LossScaler scaler(true, {.initial = 64, .least = 32});
  scaler.Update(false);
  EXPECT_EQ(scaler.scale(), 32);
  EXPECT_THROW(scaler.Update(false), UsageError);
}

TEST(LossScaler, OptionsOutOfRangeAreNamed) {
  const auto refused = [](const LossScaleOptions& options, std::string_view name) {
    try {
      LossScaler scaler(true, options);
      return false;
    } catch (const UsageError& error) {
      return std::string_view(error.what()).find(name) != std::string_view::npos;
    }
  };
  EXPECT_TRUE(refused({.fixed = -1}, "fixed"));
  EXPECT_TRUE(refused({.fixed = std::nan("")}, "fixed"));
  EXPECT_TRUE(refused({.initial = 0}, "initial"));
  EXPECT_TRUE(refused({.initial = 1e9}, "initial"));
  EXPECT_TRUE(refused({.initial = 2, .least = 4}, "least"));
  EXPECT_TRUE(refused({.window = 0}, "window"));
  EXPECT_TRUE(refused({.hysteresis = -3}, "hysteresis"));
}

TEST(LossScaler, OffIsOneForEver) {
  LossScaler scaler(false);
  for (int i = 0; i < 100; ++i) scaler.Update(false);
  EXPECT_EQ(scaler.scale(), 1);
}

}  // namespace
}  // namespace thinwire::optim
