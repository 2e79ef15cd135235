// The heartbeats of ranks that are threads of one process.
#pragma once

#include <mutex>
#include <vector>

#include "thinwire/transport/heartbeat.h"

namespace thinwire::transport {

// Thread-safe; one object for all ranks.
class InProcessBoard final : public HeartbeatBoard {
 public:
  explicit InProcessBoard(int size);

  void Publish(int rank, int64_t beat) override;
  int64_t Read(int rank) override;
  void DeclareFailure(const std::string& message) override;
  std::string FirstFailure() override;

  // What `rank` publishes from now on is not shown, as if its process had been stopped. For tests.
  void Freeze(int rank);

 private:
  struct Slot {
    int64_t beat = -1;
    bool frozen = false;
  };
  std::mutex mutex_;
  std::vector<Slot> slots_;  // by rank
  std::string failure_;
};

}  // namespace thinwire::transport
