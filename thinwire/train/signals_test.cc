#include "thinwire/train/signals.h"

#include <gtest/gtest.h>

namespace thinwire::train {
namespace {

TEST(SignalsTest, TheFirstIsAFlagAndTheSecondTheEnd) {
  const StopSignals stop;
  EXPECT_FALSE(stop.requested());
  raise(SIGTERM);
  EXPECT_TRUE(stop.requested());
  EXPECT_EXIT(raise(SIGINT), testing::ExitedWithCode(128 + SIGINT), "");
}

TEST(SignalsTest, ANewWatchStartsClean) {
  {
    const StopSignals stop;
    raise(SIGINT);
  }
  const StopSignals stop;
  EXPECT_FALSE(stop.requested());
}

}  // namespace
}  // namespace thinwire::train
