#include "thinwire/base/thread_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <vector>

#include "thinwire/base/error.h"

namespace thinwire {
namespace {

TEST(ThreadTeam, EachItemIsVisitedOnceInRangesOfAtMostTheGrain) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadTeam team(threads);
    EXPECT_EQ(team.threads(), threads);
    for (const int64_t items : {0, 1, 2, 7, 64, 1000}) {
      for (const int64_t grain : {1, 3, 64, 5000}) {
        std::vector<int> visits(static_cast<size_t>(items));
        std::atomic<bool> wrong{false};
        team.Run(items, grain, [&](int64_t begin, int64_t end, int thread) {
          if (end <= begin || end - begin > grain || thread < 0 || thread >= threads) wrong = true;
          for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
        });
        EXPECT_FALSE(wrong);
        for (const int count : visits) ASSERT_EQ(count, 1) << items << " by " << grain;
      }
    }
  }
}

// A thread late in one loop must not run a chunk of the next with the old function.
TEST(ThreadTeam, LoopsInQuickSuccessionDoNotMix) {
  ThreadTeam team(4);
  std::vector<int64_t> seen(16);
  for (int64_t loop = 0; loop < 20000; ++loop) {
    const auto items = 1 + loop % 16;
    team.Run(items, 1, [&](int64_t begin, int64_t, int) {
      seen[static_cast<size_t>(begin)] += loop * (begin + 1);
    });
    for (int64_t i = 0; i < 16; ++i) {
      const int64_t expected = i < items ? loop * (i + 1) : 0;
      ASSERT_EQ(seen[static_cast<size_t>(i)], expected) << loop;
      seen[static_cast<size_t>(i)] = 0;
    }
  }
}

// The caller does it all when no worker gets to run.
TEST(ThreadTeam, SleepingWorkersAreWoken) {
  ThreadTeam team(2);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // they sleep by now
  std::atomic<int> helper{0};
  for (int i = 0; i < 200 && helper == 0; ++i) {
    team.Run(50, 1, [&](int64_t, int64_t, int thread) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      if (thread == 1) ++helper;
    });
  }
  EXPECT_GT(helper, 0);
}

TEST(ThreadTeam, NeedsAThread) { EXPECT_THROW(ThreadTeam(0), UsageError); }

}  // namespace
}  // namespace thinwire
