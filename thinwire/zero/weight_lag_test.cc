#include "thinwire/zero/weight_lag.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace thinwire::zero {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(WeightLag, IsInUpdatesAndLeavesOutRounding) {
  WeightLag lag(4, 100);
  // Nothing sent; a code that loses a half; one that loses nothing but what rounding does; one that
  // carries nothing.
  const std::vector<double> sums{0, 0, 0, 4, 1, 0, 4, 9, 1, 4, 4, 0};
  EXPECT_EQ(lag.Judge(16, sums), std::vector<size_t>{3});
  EXPECT_EQ(lag.measured_at(), 16);
  EXPECT_EQ(std::vector<double>(lag.updates().begin(), lag.updates().end()),
            (std::vector<double>{0, 1, 0, kInfinity}));
}

TEST(WeightLag, AUnitThatFellBackSendsFullValuesForThePeriod) {
  WeightLag lag(2, 20);
  EXPECT_EQ(lag.Judge(16, std::vector<double>{1, 1, 0, 1, 0, 0}), std::vector<size_t>{0});
  for (int64_t step = 17; step < 60; ++step) {
    EXPECT_EQ(lag.FellBack(0, step), step < 37) << step;
    EXPECT_EQ(lag.IsFull(0, step), step < 37 || step == 40) << step;
    EXPECT_EQ(lag.IsFull(1, step), step == 30 || step == 50) << step;
  }
  // It says so once: what sends full values is not measured.
  EXPECT_TRUE(lag.Judge(32, std::vector<double>{1, 1, 0, 1, 0, 0}).empty());
  lag.Forget(32);
  EXPECT_FALSE(lag.FellBack(0, 33));
}

// The first differences after full values are measured, then those of every 16th step, whenever
// full values are sent in between: by all after a save, by one unit in its turn.
TEST(WeightLag, FullValuesDelayAMeasurementByAStep) {
  const auto measured = [](int64_t period, int64_t saved_every) {
    WeightLag lag(2, period);
    std::vector<std::vector<int64_t>> steps(2);
    for (int64_t step = 1; step <= 50; ++step) {
      for (size_t u = 0; u < 2; ++u) {
        if (lag.IsMeasured(u, step)) steps[u].push_back(step);
      }
      // A save after the step comes before what was sent in it is judged.
      if (step % saved_every == 0) {
        lag.Forget(step);
      } else if (lag.IsMeasured(step)) {
        EXPECT_TRUE(lag.Judge(step, std::vector<double>{1, 0, 0, 1, 0, 0}).empty());
      }
    }
    return steps;
  };
  using Steps = std::vector<int64_t>;
  EXPECT_EQ(measured(512, 1000), (std::vector<Steps>{{1, 16, 32, 48}, {1, 16, 32, 48}}));
  EXPECT_EQ(measured(512, 16),
            (std::vector<Steps>{{1, 16, 17, 32, 33, 48, 49}, {1, 16, 17, 32, 33, 48, 49}}));
  EXPECT_EQ(measured(16, 1000), (std::vector<Steps>{{1, 17, 33, 49}, {1, 16, 32, 48}}));
}

// No difference mends a weight that is no number.
TEST(WeightLag, WeightsThatAreNoNumbersFallBack) {
  for (const std::vector<double>& sums :
       {std::vector<double>{kNan, kNan, 0}, {1, kNan, 0}, {kInfinity, kInfinity, 0}}) {
    WeightLag lag(1, 20);
    EXPECT_EQ(lag.Judge(16, sums), std::vector<size_t>{0});
  }
}

}  // namespace
}  // namespace thinwire::zero
