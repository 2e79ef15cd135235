// The two directions between this rank and one peer of its machine, as slots in shared memory. Part
// of shared_transport.cc, whose lock guards it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "thinwire/transport/shared_meeting.h"
#include "thinwire/transport/transport.h"

namespace thinwire::transport {

// A message of this rank's.
struct SharedMessage {
  enum class State : uint8_t {
    kPosted,    // a send without a slot, or a receive that nothing was found for
    kMoving,    // in a slot
    kFinished,  // done, or failed when `error` is set; its bytes are the caller's again
  };

  State state = State::kPosted;
  bool send = false;
  int peer = 0;  // rank
  Tag tag = 0;
  std::byte* data = nullptr;
  size_t bytes = 0;
  int slot = -1;
  uint64_t sequence = 0;  // with a slot
  size_t moved = 0;       // bytes through the ring
  std::string error;
  SharedMessage* next = nullptr;  // in its queue
  SharedMessage* previous = nullptr;
};

// Messages in the order they were posted.
struct SharedQueue {
  SharedMessage* first = nullptr;
  SharedMessage* last = nullptr;
  void Append(SharedMessage& message);
  void Remove(SharedMessage& message);
};

class SharedLink {
 public:
  // `own` outlives this; `me` is this rank's member index.
  SharedLink(int rank, int peer_rank, int me, const SharedSegment& own, SharedPeer peer);

  void Post(SharedMessage& message);
  // Moves what can be moved, and takes the finished out of the queues. True when something changed.
  bool Pump();
  // Takes a message back that is not finished.
  void Withdraw(SharedMessage& message) noexcept;
  void FailAll(const std::string& error) noexcept;
  void Ring() const noexcept { peer_.segment.Ring(); }

  // Asks the system whether the peer is still there. False: lost, which stays.
  bool Alive();
  // Why nothing can be sent or received any more.
  std::optional<std::string> Broken() const;
  bool idle() const { return sends_.first == nullptr && receives_.first == nullptr; }

 private:
  bool PumpSend(SharedMessage& message);
  bool PumpReceive(SharedMessage& message);
  bool Place(SharedMessage& message);
  bool Stage(SharedMessage& message);
  std::pair<int, uint64_t> Oldest(Tag tag) const;
  bool Take(SharedMessage& message);
  bool Unstage(SharedMessage& message);
  void EndReceive(SharedMessage& message, std::string error);
  void Finish(SharedMessage& message, std::string error);
  std::string SizesDiffer(const SharedMessage& message, uint64_t other) const;

  const int rank_, peer_rank_, me_;
  const SharedSegment& own_;
  const SharedPeer peer_;
  const std::span<SharedSlot> out_, in_;
  std::array<bool, kSharedSlots> in_use_{};  // of out_: has a message of ours
  SharedQueue sends_, receives_;
  uint64_t sequence_ = 0;
  bool lost_ = false;
};

}  // namespace thinwire::transport
