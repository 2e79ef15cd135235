// Ranks as threads of one process: the transport of tests and of a run without a launcher.
//
// A message needs no buffer of its own: whichever side is posted second copies the bytes, in its
// own thread and outside the lock, straight from the sender's memory to the receiver's. Of several
// messages in flight with one (sender, receiver, tag), the oldest is matched first.
//
//   sizes differ    PeerError on both sides, naming ranks, tag and both sizes
//   rank r aborts   its own calls throw PeerError(reason); what its peers have or post with it
//   throws
//                   PeerError("rank r aborted: reason")
//   token dropped   a message that was not matched yet is withdrawn; one that is being copied is
//                   waited for. Either way its memory may go once the token is gone.
//
// A fabric allocates only when it holds more messages than ever before.
#pragma once

#include <memory>

#include "thinwire/transport/transport.h"

namespace thinwire::transport {

class ThreadFabric {
 public:
  // `size` >= 1 ranks.
  explicit ThreadFabric(int size);
  // All tokens must be gone.
  ~ThreadFabric();
  ThreadFabric(const ThreadFabric&) = delete;
  ThreadFabric& operator=(const ThreadFabric&) = delete;

  int size() const;
  // The link of one rank, to be used from that rank's threads; Abort() from any.
  Transport& transport(int rank);

 private:
  class Core;
  class Rank;
  std::unique_ptr<Core> core_;
};

}  // namespace thinwire::transport
