// How ranks of one machine come to share memory: each opens a door (an abstract Unix socket, which
// has no file and ends with its process), tells the others its name by other means, and hands its
// segment to each of them through theirs. That two ranks share a machine is thus not believed but
// tried: who cannot come through the door or map the memory keeps to the network.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/transport/shared_segment.h"

namespace thinwire::transport {

// A file descriptor that is closed when this goes; -1: none.
class OwnedFd {
 public:
  explicit OwnedFd(int fd = -1) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(other.Take()) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  ~OwnedFd();
  int get() const { return fd_; }
  int Take();

 private:
  int fd_;
};

// A peer whose memory is mapped here, and ours there.
struct SharedPeer {
  int member = 0;  // its index among the ranks of the machine
  SharedSegment segment;
  OwnedFd socket;   // hangs up when the peer's end goes
  OwnedFd process;  // a pidfd, readable when the process has ended; where the kernel has them
};

struct MeetingResult {
  SharedSegment own;
  std::vector<SharedPeer> peers;  // those met
  std::string failure;            // why the first of the others was not; empty: all were met
};

class SharedDoor {
 public:
  // Throws IoError where the system has no such sockets.
  SharedDoor();
  // For the peers, and for nobody else: printable, without spaces.
  const std::string& name() const { return name_; }

  struct Setup {
    std::vector<std::string> names;  // of the doors of this machine, by member, this one among them
    int me = 0;                      // member
    std::chrono::milliseconds patience{5000};
  };
  // Every member calls it once, at about the same time. Throws IoError when no memory can be shared
  // at all. A pair may differ in whether they met: the caller makes them agree.
  MeetingResult Meet(const Setup& setup) const;

 private:
  std::string name_;
  OwnedFd listener_;
};

}  // namespace thinwire::transport
