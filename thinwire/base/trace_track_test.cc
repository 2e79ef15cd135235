#include "thinwire/base/trace_track.h"

#include <gtest/gtest.h>

#include <thread>

namespace thinwire {
namespace {

TEST(TraceTrack, KeepsStatesInOrderWhileItIsOn) {
  TraceTrack track;
  track.Enter({.doing = 1});
  track.Start(10, {.doing = 2});
  track.Enter({.doing = 3, .subject = 7, .bytes = 5});
  const int64_t before = TraceNow();
  track.Enter({.doing = 4});
  track.EnterAt({.doing = 5}, 0);  // no later state begins before an earlier one
  const TraceTrack::Taken taken = track.Take();
  ASSERT_EQ(taken.states.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(taken.states[i].doing, i + 2);
    EXPECT_GE(taken.states[i].at_ns, taken.states[i == 0 ? 0 : i - 1].at_ns);
  }
  EXPECT_EQ(taken.states[1].subject, 7);
  EXPECT_EQ(taken.states[1].bytes, 5);
  EXPECT_GE(taken.states[2].at_ns, before);
  EXPECT_GE(taken.end_ns, taken.states[3].at_ns);
  EXPECT_EQ(taken.lost, 0);
  track.Enter({.doing = 6});
  EXPECT_TRUE(track.Take().states.empty());
}

TEST(TraceTrack, EndsWhereItsRoomEnds) {
  TraceTrack track;
  track.Start(2, {.doing = 1});
  track.Enter({.doing = 2});
  track.EnterAt({.doing = 3}, TraceNow());
  const int64_t after = TraceNow();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  track.Enter({.doing = 4});
  const TraceTrack::Taken taken = track.Take();
  EXPECT_EQ(taken.states.size(), 2u);
  EXPECT_EQ(taken.states.capacity(), 2u);
  EXPECT_EQ(taken.lost, 2);
  EXPECT_LE(taken.end_ns, after);
}

}  // namespace
}  // namespace thinwire
