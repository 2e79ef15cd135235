#include "thinwire/transport/shared_meeting.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::transport {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

[[noreturn]] void Refused(const char* what) {
  throw IoError(StrCat(what, ": ", std::strerror(errno)));
}

uint64_t RandomBits() {
  uint64_t bits = 0;
  if (getrandom(&bits, sizeof(bits), 0) != sizeof(bits)) Refused("getrandom");
  return bits;
}

// In the abstract namespace: a zero byte, then the name.
std::pair<sockaddr_un, socklen_t> AddressOf(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof(address.sun_path)) throw IoError("the name of a door is too long");
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

OwnedFd NewSocket() {
  OwnedFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) Refused("socket");
  return fd;
}

struct Hello {
  uint64_t nonce = 0;  // in the segment that comes along
  int32_t member = 0;
  int32_t members = 0;
  char door[64] = {};  // of the receiver: who knows it was told
};

void SendHello(int socket, const Hello& hello, int segment) {
  Hello copy = hello;
  iovec data{.iov_base = &copy, .iov_len = sizeof(copy)};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof(room);
  cmsghdr* control = CMSG_FIRSTHDR(&message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(control), &segment, sizeof(int));
  if (sendmsg(socket, &message, MSG_NOSIGNAL) != sizeof(copy)) Refused("sending to a peer");
}

OwnedFd ReceiveHello(int socket, Hello& hello) {
  iovec data{.iov_base = &hello, .iov_len = sizeof(hello)};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof(room);
  const ssize_t received = recvmsg(socket, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC);
  OwnedFd segment;
  const cmsghdr* control = CMSG_FIRSTHDR(&message);
  if (received > 0 && control != nullptr && control->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(control), sizeof(fd));
    segment = OwnedFd(fd);
  }
  if (received < 0) Refused("hearing from a peer");
  if (received != sizeof(hello) || segment.get() < 0) throw IoError("a peer hung up");
  return segment;
}

ucred CredentialsOf(int socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) Refused("SO_PEERCRED");
  return peer;
}

void Limit(int socket, Clock::time_point end) {
  const auto left =
      std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(end - Clock::now()));
  const timeval time{.tv_sec = left.count() / 1000, .tv_usec = left.count() % 1000 * 1000};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
}

}  // namespace

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}
OwnedFd::~OwnedFd() {
  if (fd_ >= 0) close(fd_);
}
int OwnedFd::Take() { return std::exchange(fd_, -1); }

SharedDoor::SharedDoor() : listener_(NewSocket()) {
  constexpr char kDigits[] = "0123456789abcdef";
  name_ = "thinwire-";
  for (int half = 0; half < 2; ++half) {
    const uint64_t bits = RandomBits();
    for (int digit = 0; digit < 16; ++digit) name_ += kDigits[bits >> (4 * digit) & 15];
  }
  const auto [address, length] = AddressOf(name_);
  if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(listener_.get(), SOMAXCONN) != 0) {
    Refused("listening on a Unix socket");
  }
}

namespace {

// One member's part in the meeting.
class Host {
 public:
  Host(const SharedDoor::Setup& setup, int listener)
      : setup_(setup),
        listener_(listener),
        end_(Clock::now() + setup.patience),
        nonce_(RandomBits()),
        own_(members(), nonce_) {}

  MeetingResult Run() {
    std::vector<SharedPeer> peers;
    std::string failure;
    const auto attempt = [&](auto&& meet) {
      try {
        peers.push_back(meet());
      } catch (const Error& error) {
        if (failure.empty()) failure = error.what();
        return false;
      }
      return true;
    };
    // Those below are met by going there, in order; those above come. Somebody who waits at a
    // door waits for a member below, so nobody waits in a circle.
    for (int peer = 0; peer < setup_.me; ++peer) {
      attempt([&] { return Greet(Connect(peer), peer); });
    }
    int missing = members() - 1 - setup_.me;
    while (missing > 0) {
      OwnedFd guest = Accept();
      if (guest.get() < 0) {
        if (failure.empty()) failure = "a rank of this machine did not come to the meeting";
        break;
      }
      if (attempt([&] { return Greet(std::move(guest), -1); })) --missing;
    }
    // Strangers that knocked do not count.
    if (static_cast<int>(peers.size()) == members() - 1) failure.clear();
    return {.own = std::move(own_), .peers = std::move(peers), .failure = std::move(failure)};
  }

 private:
  int members() const { return static_cast<int>(setup_.names.size()); }

  OwnedFd Connect(int peer) const {
    OwnedFd fd = NewSocket();
    Limit(fd.get(), end_);
    const auto [address, length] = AddressOf(setup_.names[static_cast<size_t>(peer)]);
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
      Refused("connecting to a rank of this machine");
    }
    return fd;
  }

  // None at the end of the patience.
  OwnedFd Accept() const {
    pollfd door{.fd = listener_, .events = POLLIN, .revents = 0};
    while (true) {
      const auto left = std::chrono::duration_cast<milliseconds>(end_ - Clock::now()).count();
      const int ready = left > 0 ? poll(&door, 1, static_cast<int>(left)) : 0;
      if (ready > 0) return OwnedFd(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
      if (ready == 0 || errno != EINTR) return OwnedFd();
    }
  }

  // `expected` -1: whoever knows this door and was not here yet.
  SharedPeer Greet(OwnedFd socket, int expected) {
    Limit(socket.get(), end_);
    const ucred who = CredentialsOf(socket.get());
    if (who.uid != geteuid()) throw IoError("the ranks of this machine run as different users");
    Hello mine{.nonce = nonce_, .member = setup_.me, .members = members()};
    // The name of a door is shorter than the room for it; a guest says that of the host.
    const std::string& door =
        setup_.names[static_cast<size_t>(expected < 0 ? setup_.me : expected)];
    door.copy(mine.door, sizeof(mine.door) - 1);
    Hello theirs;
    if (expected >= 0) SendHello(socket.get(), mine, own_.fd());
    OwnedFd fd = ReceiveHello(socket.get(), theirs);
    const bool right_member = expected >= 0
                                  ? theirs.member == expected
                                  : theirs.member > setup_.me && theirs.member < members();
    if (std::memcmp(theirs.door, mine.door, sizeof(mine.door)) != 0 || !right_member ||
        theirs.members != members()) {
      throw IoError("somebody else came to the meeting of the ranks");
    }
    if (expected < 0) SendHello(socket.get(), mine, own_.fd());
    SharedPeer peer{.member = theirs.member,
                    .segment = SharedSegment(fd.Take(), members(), theirs.nonce),
                    .socket = std::move(socket),
                    .process = OwnedFd()};
    if (who.pid > 0) {
      peer.process = OwnedFd(static_cast<int>(syscall(SYS_pidfd_open, who.pid, 0)));
    }
    const char here = 1;
    char there = 0;
    if (send(peer.socket.get(), &here, 1, MSG_NOSIGNAL) != 1 ||
        recv(peer.socket.get(), &there, 1, 0) != 1) {
      throw IoError("a rank of this machine could not map the memory of another");
    }
    return peer;
  }

  const SharedDoor::Setup& setup_;
  const int listener_;
  const Clock::time_point end_;
  const uint64_t nonce_;
  SharedSegment own_;
};

}  // namespace

MeetingResult SharedDoor::Meet(const Setup& setup) const {
  THINWIRE_CHECK(setup.names.at(static_cast<size_t>(setup.me)) == name_, setup.me);
  return Host(setup, listener_.get()).Run();
}

}  // namespace thinwire::transport
