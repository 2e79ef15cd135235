#include "thinwire/train/signals.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace thinwire::train {
namespace {

TEST(SignalsTest, TheFirstIsAFlagAndALaterOneTheEnd) {
  const StopSignals stop;
  EXPECT_FALSE(stop.requested());
  raise(SIGTERM);
  EXPECT_TRUE(stop.requested());
  raise(SIGTERM);  // the launcher's copy of the same request
  std::this_thread::sleep_for(std::chrono::milliseconds(StopSignals::kSameRequestMs + 100));
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
