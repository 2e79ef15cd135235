// Notices peers that have gone silent. A thread shows this rank's heartbeat on the board and reads
// the others'; a rank whose beat has not moved for the deadline is declared lost, unless it has
// said farewell. It also learns from the board when another rank has declared a failure, and ends a
// wait (Agreement::waiting) for a rank that has said farewell, or kPatience deadlines after it
// began where it is bounded.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "thinwire/comm/agreement.h"
#include "thinwire/comm/monitor.h"
#include "thinwire/transport/heartbeat.h"

namespace thinwire::comm {

class Watchdog {
 public:
  // Others wait for a rank that computes, saves or looks at something on its own before a call that
  // all make: five minutes by default.
  static constexpr int kPatience = 5;

  // `lost` is called at most once, from the watchdog's thread, with one line that says what was
  // seen. The board outlives the watchdog. `waiting` is called from that thread.
  Watchdog(
      transport::HeartbeatBoard& board, int rank, int world, std::chrono::milliseconds deadline,
      std::function<void(const std::string&)> lost,
      std::function<Waiting()> waiting = [] { return Waiting{}; });
  ~Watchdog();

  // This rank has ended well. It is watched no more, and watches none.
  void SayFarewell();

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    int64_t beat = -1;
    Clock::time_point seen;
  };

  void Run();
  void Stop();
  // Empty while all is well. Shows and reads beats only when asked to.
  std::string Look(bool beats);
  // Whether this rank waits in vain.
  std::string LookAtWait(Clock::time_point now);
  void ReadPeers(Clock::time_point now, std::string& trouble);
  // Gives the peers a new deadline when this rank itself did not run for half of one (a machine
  // that was paused, all ranks stopped at once): it then knows nothing about them.
  void NoticeOwnPause(Clock::time_point now);

  transport::HeartbeatBoard& board_;
  const int rank_;
  const std::chrono::milliseconds deadline_;
  std::function<void(const std::string&)> lost_;
  std::function<Waiting()> waiting_;
  std::vector<Peer> peers_;
  int64_t beat_ = 0;
  Clock::time_point looked_ = Clock::now();
  Monitor stop_monitor_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace thinwire::comm
