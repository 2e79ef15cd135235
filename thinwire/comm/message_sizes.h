// How many bytes coded messages will have, known to both ends before they are sent: a receive needs
// its size when it is posted, and a message must have the size that was posted.
//
// Each message announces the size for a later one of the same exchange: a little more than it had
// itself. An announcement counts for the exchanges whose tags are at least `lag` behind its own.
// Where exchanges run in a lane with a window of `lag`, those are the ones that are prepared after
// it is complete, on the sender as on the receiver. Before the first one counts, the size is the
// most that a message can have.
//
// What does not fit goes in a second message, whose size the header of the first one tells.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "thinwire/transport/transport.h"

namespace thinwire::comm {

// Of the messages that go one way between two ranks, or from one to all. For several threads: a
// lane takes in one message while it prepares for another.
class AnnouncedSize {
 public:
  // At an exchange with `tag`, which announces `bytes`. Tags go up.
  void Announce(transport::Tag tag, int64_t bytes);
  // The size of a message of an exchange with `tag`: what the last announcement that counts says,
  // or else `most`.
  int64_t At(transport::Tag tag, uint32_t lag, int64_t most) const;

  static constexpr uint32_t kLongestLag = 4;

 private:
  struct Announcement {
    transport::Tag tag = 0;
    int64_t bytes = 0;  // 0: none
  };
  mutable std::mutex mutex_;
  std::array<Announcement, kLongestLag> last_{};  // a ring
  uint32_t next_ = 0;
};

// Of one exchange, on one rank, for as long as it is used.
struct MessageSizes {
  uint32_t lag = 1;
  std::vector<AnnouncedSize> sends;     // by member; a gather uses this rank's own alone
  std::vector<AnnouncedSize> receives;  // by member

  MessageSizes(int members, uint32_t in_flight);
};

// The size to announce after a message of `bytes`, of at most `most`: what changes by less than 1 %
// from one use to the next fits again.
int64_t SizeToAnnounce(int64_t bytes, int64_t most);

}  // namespace thinwire::comm
