#include "thinwire/optim/schedule.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "thinwire/base/error.h"

namespace thinwire::optim {
namespace {

constexpr ScheduleOptions kOptions{
    .peak = 1.0, .floor_ratio = 0.1, .warmup_steps = 4, .total_steps = 104};

TEST(Schedule, WarmsUpLinearlyWithoutAStepAtZero) {
  EXPECT_DOUBLE_EQ(LearningRate(kOptions, 0), 0.2);
  EXPECT_DOUBLE_EQ(LearningRate(kOptions, 1), 0.4);
  EXPECT_DOUBLE_EQ(LearningRate(kOptions, 3), 0.8);
  EXPECT_DOUBLE_EQ(LearningRate(kOptions, 4), 1.0);
}

TEST(Schedule, FallsAlongACosineToTheFloor) {
  EXPECT_DOUBLE_EQ(LearningRate(kOptions, 54), 0.55);  // half-way between 1 and 0.1
  EXPECT_NEAR(LearningRate(kOptions, 29), 0.1 + 0.9 * 0.85355339059327, 1e-12);  // pi / 4
  for (int64_t step = 5; step <= 104; ++step) {
    EXPECT_LT(LearningRate(kOptions, step), LearningRate(kOptions, step - 1));
  }
  EXPECT_DOUBLE_EQ(LearningRate(kOptions, 104), 0.1);
  EXPECT_DOUBLE_EQ(LearningRate(kOptions, std::numeric_limits<int64_t>::max()), 0.1);
}

TEST(Schedule, Extremes) {
  EXPECT_DOUBLE_EQ(LearningRate({.peak = 2.0, .warmup_steps = 0, .total_steps = 10}, 0), 2.0);
  const ScheduleOptions only_warmup{.peak = 1.0, .warmup_steps = 3, .total_steps = 3};
  Validate(only_warmup);
  EXPECT_DOUBLE_EQ(LearningRate(only_warmup, 2), 0.75);
  EXPECT_DOUBLE_EQ(LearningRate(only_warmup, 3), 0.1);
  const ScheduleOptions constant{.peak = 3.0, .floor_ratio = 1.0, .total_steps = 7};
  for (int64_t step = 0; step < 9; ++step) EXPECT_DOUBLE_EQ(LearningRate(constant, step), 3.0);
  EXPECT_THROW(LearningRate(constant, -1), InternalError);
}

std::string ErrorOf(const ScheduleOptions& options) {
  try {
    Validate(options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Schedule, SaysWhichOptionIsWrong) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ErrorOf(kOptions), "");
  for (const double peak : {0.0, -1.0, kNaN, kInf}) {
    EXPECT_EQ(ErrorOf({.peak = peak}).find("learning rate: "), 0u) << peak;
  }
  for (const double ratio : {-0.1, 1.1, kNaN}) {
    EXPECT_EQ(ErrorOf({.floor_ratio = ratio}).find("learning rate floor: "), 0u) << ratio;
  }
  EXPECT_EQ(ErrorOf({.total_steps = 0}), "steps: expected at least 1, found 0");
  for (const int64_t warmup : {-1, 11}) {
    EXPECT_EQ(ErrorOf({.warmup_steps = warmup, .total_steps = 10}),
              "warm-up steps: expected 0 to 10 (all steps), found " + std::to_string(warmup));
  }
}

}  // namespace
}  // namespace thinwire::optim
