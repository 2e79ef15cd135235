// A board on which every rank shows that it lives. Implementations: in_process_board.h for ranks
// as threads, torch/store_board.h over a c10d store.
#pragma once

#include <cstdint>
#include <string>

namespace thinwire::transport {

class HeartbeatBoard {
 public:
  virtual ~HeartbeatBoard() = default;

  // Shows `beat` for this rank. Throws PeerError when the board cannot be reached.
  // kFarewell is a rank's last one: it has ended well, and shows no more.
  virtual void Publish(int rank, int64_t beat) = 0;
  static constexpr int64_t kFarewell = INT64_MAX;
  // What `rank` showed last; -1 before its first.
  virtual int64_t Read(int rank) = 0;

  // The first failure that any rank declared: set once, read by all, so that every rank can name
  // the rank that failed rather than the one it happened to notice. Empty while there is none.
  virtual void DeclareFailure(const std::string& message) = 0;
  virtual std::string FirstFailure() = 0;
};

}  // namespace thinwire::transport
