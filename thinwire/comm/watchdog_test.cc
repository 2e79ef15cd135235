#include "thinwire/comm/watchdog.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "thinwire/base/error.h"
#include "thinwire/transport/in_process_board.h"

namespace thinwire::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// What a watchdog said, and when.
class Listener {
 public:
  std::function<void(const std::string&)> callback() {
    return [this](const std::string& message) {
      const std::lock_guard lock(mutex_);
      ++calls_;
      message_ = message;
      at_ = Clock::now();
      changed_.notify_all();
    };
  }
  // Empty when nothing was said in time.
  std::string Await(milliseconds timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [&] { return calls_ > 0; });
    return message_;
  }
  Clock::time_point at() {
    const std::lock_guard lock(mutex_);
    return at_;
  }
  int calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string message_;
  Clock::time_point at_;
  int calls_ = 0;
};

constexpr milliseconds kDeadline(360);

// A board that takes longer than a deadline once, as it looks to a rank that was paused.
class PausingBoard final : public transport::HeartbeatBoard {
 public:
  explicit PausingBoard(transport::HeartbeatBoard& board) : board_(board) {}

  void Publish(int rank, int64_t beat) override {
    if (beat == 3) std::this_thread::sleep_for(kDeadline * 3 / 2);
    board_.Publish(rank, beat);
  }
  int64_t Read(int rank) override { return board_.Read(rank); }
  void DeclareFailure(const std::string& message) override { board_.DeclareFailure(message); }
  std::string FirstFailure() override { return board_.FirstFailure(); }

 private:
  transport::HeartbeatBoard& board_;
};

// All ranks were paused together: after that none blames another for the time.
TEST(Watchdog, APauseOfItsOwnIsNoSilenceOfOthers) {
  transport::InProcessBoard board(2);
  PausingBoard pausing(board);
  Listener listener;
  {
    const Watchdog a(pausing, 0, 2, kDeadline, listener.callback());
    board.Publish(1, 1);
    // The other rank wakes a little later than this one.
    std::this_thread::sleep_for(kDeadline * 2);
    board.Publish(1, 2);
    EXPECT_EQ(listener.Await(kDeadline / 2), "");
  }
  EXPECT_EQ(listener.calls(), 0);
}

TEST(Watchdog, IsSilentWhileAllLive) {
  transport::InProcessBoard board(3);
  Listener listeners[3];
  {
    Watchdog a(board, 0, 3, kDeadline, listeners[0].callback());
    Watchdog b(board, 1, 3, kDeadline, listeners[1].callback());
    Watchdog c(board, 2, 3, kDeadline, listeners[2].callback());
    std::this_thread::sleep_for(2 * kDeadline);
  }
  for (Listener& listener : listeners) EXPECT_EQ(listener.calls(), 0) << listener.Await({});
}

TEST(Watchdog, AFrozenRankIsLostWithinTheDeadline) {
  // A busy machine runs threads late, which only ever adds: the best of a few attempts counts.
  Clock::duration best = Clock::duration::max();
  for (int attempt = 0; attempt < 4 && best > kDeadline * 6 / 5; ++attempt) {
    transport::InProcessBoard board(2);
    Listener live, frozen;
    Watchdog a(board, 0, 2, kDeadline, live.callback());
    Watchdog b(board, 1, 2, kDeadline, frozen.callback());
    std::this_thread::sleep_for(kDeadline / 4);
    const auto start = Clock::now();
    board.Freeze(1);
    const std::string message = live.Await(5 * kDeadline);
    best = std::min(best, live.at() - start);
    EXPECT_NE(message.find("rank 1 "), std::string::npos) << message;
    EXPECT_NE(message.find("parallel.deadline_s"), std::string::npos) << message;
    EXPECT_GE(live.at() - start, kDeadline / 2);
    std::this_thread::sleep_for(kDeadline / 4);
    EXPECT_EQ(live.calls(), 1);
    EXPECT_EQ(frozen.calls(), 0);  // it sees that the other one lives
  }
  EXPECT_LE(best, kDeadline * 6 / 5);
}

TEST(Watchdog, ARankThatNeverBeganIsLostToo) {
  transport::InProcessBoard board(2);
  Listener listener;
  Watchdog watchdog(board, 0, 2, kDeadline / 3, listener.callback());
  EXPECT_NE(listener.Await(kDeadline).find("rank 1 "), std::string::npos);
}

TEST(Watchdog, LearnsOfAFailureLongBeforeTheDeadline) {
  transport::InProcessBoard board(2);
  Listener listener;
  Watchdog a(board, 0, 2, milliseconds(60'000), listener.callback());
  board.Publish(1, 1);
  const auto start = Clock::now();
  board.DeclareFailure("rank 1: out of memory");
  EXPECT_EQ(listener.Await(milliseconds(5000)), "rank 1: out of memory");
  EXPECT_LE(listener.at() - start, milliseconds(900));  // a look is due every 500 ms
}

class BrokenBoard final : public transport::HeartbeatBoard {
 public:
  void Publish(int, int64_t) override { throw PeerError("the store is gone"); }
  int64_t Read(int) override { return 0; }
  void DeclareFailure(const std::string&) override {}
  std::string FirstFailure() override { return {}; }
};

TEST(Watchdog, ABoardThatThrowsIsReportedOnce) {
  BrokenBoard board;
  Listener listener;
  Watchdog watchdog(board, 0, 2, milliseconds(120), listener.callback());
  EXPECT_EQ(listener.Await(milliseconds(2000)), "the store is gone");
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(listener.calls(), 1);
}

TEST(Watchdog, EndsAtOnce) {
  transport::InProcessBoard board(2);
  Listener listener;
  const auto start = Clock::now();
  { Watchdog watchdog(board, 0, 2, milliseconds(60'000), listener.callback()); }
  EXPECT_LE(Clock::now() - start, milliseconds(2000));
  EXPECT_EQ(listener.calls(), 0);
}

Waiting WaitingFor(int peer, Patience patience) {
  Waiting waiting{.peer = peer, .patience = patience, .since = Clock::now()};
  std::ranges::copy(std::string_view("the call"), waiting.intent.begin());
  return waiting;
}

TEST(Watchdog, ARankThatSaidFarewellIsMissedOnlyByThoseThatWaitForIt) {
  transport::InProcessBoard board(3);
  Listener idle, waits;
  std::atomic<bool> begun = false;
  const Waiting waiting = WaitingFor(2, Patience::kEndless);
  Watchdog first(board, 0, 3, kDeadline, idle.callback());
  Watchdog second(board, 1, 3, kDeadline, waits.callback(),
                  [&] { return begun ? waiting : Waiting{}; });
  {
    Listener third;
    Watchdog(board, 2, 3, kDeadline, third.callback()).SayFarewell();
  }
  EXPECT_EQ(waits.Await(3 * kDeadline), "");
  begun = true;
  EXPECT_EQ(waits.Await(milliseconds(5000)),
            "rank 1 waits in the call for rank 2, which has ended its engine: all ranks call it");
  EXPECT_EQ(idle.calls(), 0);
}

TEST(Watchdog, ABoundedWaitForARankThatLivesEnds) {
  transport::InProcessBoard board(2);
  Listener endless, bounded;
  const Waiting one = WaitingFor(1, Patience::kEndless), other = WaitingFor(0, Patience::kBounded);
  Watchdog first(board, 0, 2, kDeadline, endless.callback(), [&] { return one; });
  Watchdog second(board, 1, 2, kDeadline, bounded.callback(), [&] { return other; });
  const std::string said = bounded.Await(milliseconds(10'000));
  EXPECT_NE(said.find("s in the call for rank 0, which lives but has not come"), std::string::npos)
      << said;
  EXPECT_GE(bounded.at() - other.since, Watchdog::kPatience * kDeadline);
  EXPECT_EQ(endless.calls(), 0);
}

}  // namespace
}  // namespace thinwire::comm
