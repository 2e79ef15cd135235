// Notices peers that have gone silent. A thread shows this rank's heartbeat on the board and reads
// the others'; a rank whose beat has not moved for the deadline is declared lost. It also learns
// from the board when another rank has declared a failure.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "thinwire/comm/monitor.h"
#include "thinwire/transport/heartbeat.h"

namespace thinwire::comm {

class Watchdog {
 public:
  // `lost` is called at most once, from the watchdog's thread, with one line that says what was
  // seen. The board outlives the watchdog.
  Watchdog(transport::HeartbeatBoard& board, int rank, int world,
           std::chrono::milliseconds deadline, std::function<void(const std::string&)> lost);
  ~Watchdog();

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    int64_t beat = -1;
    Clock::time_point seen;
  };

  void Run();
  // Empty while all is well. Shows and reads beats only when asked to.
  std::string Look(bool beats);
  void ReadPeers(Clock::time_point now, std::string& trouble);
  // Gives the peers a new deadline when this rank itself did not run for half of one (a machine
  // that was paused, all ranks stopped at once): it then knows nothing about them.
  void NoticeOwnPause(Clock::time_point now);

  transport::HeartbeatBoard& board_;
  const int rank_;
  const std::chrono::milliseconds deadline_;
  std::function<void(const std::string&)> lost_;
  std::vector<Peer> peers_;
  int64_t beat_ = 0;
  Clock::time_point looked_ = Clock::now();
  Monitor stop_monitor_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace thinwire::comm
