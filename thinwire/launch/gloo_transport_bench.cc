// Throughput between two processes over loopback by message size and by how many receives are
// posted ahead: what one message's rendezvous costs, and the window that hides it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/base/error.h"
#include "thinwire/launch/process_group.h"

namespace thinwire::launch {
namespace {

using Clock = std::chrono::steady_clock;
using transport::Tag;
using transport::Token;
using transport::Transport;

const ExecContext kContext;

double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  close(fd);
  return ntohs(address.sin_port);
}

// An empty message each way: both ranks are here.
void Meet(Transport& control) {
  std::byte out{}, in{};
  const int peer = 1 - control.rank();
  Token receive = control.Recv(kContext, peer, 0, {&in, 1});
  control.Send(kContext, peer, 0, {&out, 1})->Wait();
  receive->Wait();
}

// Messages from rank 0 to rank 1, or both ways, of which each side keeps `window` in flight.
// Seconds for `count` of them.
double Stream(ProcessGroup& group, int64_t bytes, int count, int window, bool both) {
  Transport& bulk = group.bulk();
  const int me = bulk.rank();
  const bool sends = both || me == 0, receives = both || me == 1;
  static const AlignedBuffer out(int64_t{8} << 20);
  static const AlignedBuffer in(int64_t{8} << 20);
  const auto size = static_cast<size_t>(bytes);
  std::deque<Token> outgoing, incoming;
  const auto post_receive = [&](int message) {
    incoming.push_back(
        bulk.Recv(kContext, 1 - me, static_cast<Tag>(message), in.bytes().first(size)));
  };
  if (receives) {
    for (int i = 0; i < std::min(window, count); ++i) post_receive(i);
  }
  Meet(group.control());
  const auto start = Clock::now();
  for (int i = 0; i < count; ++i) {
    if (sends) {
      if (static_cast<int>(outgoing.size()) == window) {
        outgoing.front()->Wait();
        outgoing.pop_front();
      }
      outgoing.push_back(bulk.Send(kContext, 1 - me, static_cast<Tag>(i), out.bytes().first(size)));
    }
    if (receives) {
      incoming.front()->Wait();
      incoming.pop_front();
      if (i + window < count) post_receive(i + window);
    }
  }
  for (Token& token : outgoing) token->Wait();
  Meet(group.control());
  return Seconds(Clock::now() - start);
}

// Seconds from here to there and back of one byte.
double RoundTrip(Transport& control) {
  constexpr int kTrips = 500;
  std::byte out{}, in{};
  const int peer = 1 - control.rank();
  Meet(control);
  const auto start = Clock::now();
  for (int i = 0; i < kTrips; ++i) {
    const auto tag = static_cast<Tag>(1 + i);
    Token receive = control.Recv(kContext, peer, tag, {&in, 1});
    if (control.rank() == 1) receive->Wait();
    control.Send(kContext, peer, tag, {&out, 1})->Wait();
    if (control.rank() == 0) receive->Wait();
  }
  return Seconds(Clock::now() - start) / kTrips;
}

void Measure(LaunchEnvironment environment) {
  ProcessGroup group(environment, std::chrono::seconds(30), false);
  const double round_trip = RoundTrip(group.control());
  const bool prints = environment.rank == 0;
  if (prints) std::printf("one byte there and back: %.0f us\n", round_trip * 1e6);
  if (prints) std::printf("%8s %7s %12s %12s\n", "KiB", "window", "MiB/s", "both, sum");
  for (const int64_t kib : {64, 1024, 8192}) {
    for (const int window : {1, 2, 4}) {
      const int count = static_cast<int>((int64_t{32} << 10) / kib);
      const double mib = static_cast<double>(count * kib) / 1024;
      double one_way = 1e9, both = 1e9;
      for (int repeat = 0; repeat < 10; ++repeat) {
        one_way = std::min(one_way, Stream(group, kib << 10, count, window, false));
        both = std::min(both, Stream(group, kib << 10, count, window, true));
      }
      if (prints) {
        std::printf("%8lld %7d %12.0f %12.0f\n", static_cast<long long>(kib), window, mib / one_way,
                    2 * mib / both);
        std::fflush(stdout);
      }
    }
  }
}

}  // namespace
}  // namespace thinwire::launch

int main() {
  thinwire::launch::LaunchEnvironment environment;
  environment.world = 2;
  environment.master_port = thinwire::launch::FreePort();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    environment.rank = 1;
  }
  thinwire::launch::Measure(environment);
  if (child > 0) waitpid(child, nullptr, 0);
}
