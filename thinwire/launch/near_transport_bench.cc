// Messages between two processes of one machine over Gloo or through shared memory, by size:
// microseconds one way, and MiB/s of a stream of which two are in flight.
//   launch_near_transport_bench gloo|shared|copy REPEATS [PORT [windows]]
// PORT is a free one, for Gloo; any number for the others. `copy` is memcpy from one buffer to
// another in one process, which is what a transport comes to that copies once on one core.
// `windows`: MiB/s by how many messages are in flight instead, one way and both ways at once: what
// the rendezvous of a message costs, and the window that hides it. Prints a line of JSON per size:
// the best of the repeats, since neighbours only ever slow one down.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string_view>

#include "thinwire/base/aligned_buffer.h"
#include "thinwire/launch/process_group.h"
#include "thinwire/transport/shared_ranks.h"

namespace thinwire::launch {
namespace {

using Clock = std::chrono::steady_clock;
using transport::Tag;
using transport::Token;
using transport::Transport;

const ExecContext kContext;
constexpr int64_t kSizesKib[] = {1, 64, 1024, 16384};

double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// Two buffers with their pages there.
struct Buffers {
  explicit Buffers(int64_t kib) : out_memory(kib << 10), in_memory(kib << 10) {
    std::ranges::fill(out(), std::byte{1});
    std::ranges::fill(in(), std::byte{2});
  }
  std::span<std::byte> out() const { return out_memory.bytes(); }
  std::span<std::byte> in() const { return in_memory.bytes(); }

  AlignedBuffer out_memory, in_memory;
};

int TripsOf(int64_t kib) { return kib >= 1024 ? 4 : 200; }

void Print(const char* way, int64_t kib, double one_way, double stream) {
  std::printf("{\"way\": \"%s\", \"kib\": %lld, \"one_way_us\": %.1f, \"mib_per_s\": %.0f}\n", way,
              static_cast<long long>(kib), one_way * 1e6, static_cast<double>(kib) / 1024 / stream);
  std::fflush(stdout);
}

void Meet(Transport& transport) {
  std::byte out{}, in{};
  const int peer = 1 - transport.rank();
  Token receive = transport.Recv(kContext, peer, 1u << 30, {&in, 1});
  transport.Send(kContext, peer, 1u << 30, {&out, 1})->Wait();
  receive->Wait();
}

// Half of there and back; the receives are posted before the messages come.
double OneWay(Transport& transport, const Buffers& buffers, int trips) {
  const int peer = 1 - transport.rank();
  Meet(transport);
  const auto start = Clock::now();
  for (int i = 0; i < trips; ++i) {
    Token receive = transport.Recv(kContext, peer, 1, buffers.in());
    if (transport.rank() == 1) receive->Wait();
    transport.Send(kContext, peer, 1, buffers.out())->Wait();
    if (transport.rank() == 0) receive->Wait();
  }
  return Seconds(Clock::now() - start) / trips / 2;
}

// From rank 0 to rank 1, or both ways, of which each side keeps `window` in flight: the time of one
// message.
double Stream(Transport& transport, const Buffers& buffers, int count, int window, bool both) {
  const int me = transport.rank();
  const bool sends = both || me == 0, receives = both || me == 1;
  std::deque<Token> outgoing, incoming;
  const auto post_receive = [&](int message) {
    incoming.push_back(transport.Recv(kContext, 1 - me, static_cast<Tag>(message), buffers.in()));
  };
  if (receives) {
    for (int i = 0; i < std::min(window, count); ++i) post_receive(i);
  }
  Meet(transport);
  const auto start = Clock::now();
  for (int i = 0; i < count; ++i) {
    if (sends) {
      if (static_cast<int>(outgoing.size()) == window) {
        outgoing.front()->Wait();
        outgoing.pop_front();
      }
      outgoing.push_back(transport.Send(kContext, 1 - me, static_cast<Tag>(i), buffers.out()));
    }
    if (receives) {
      incoming.front()->Wait();
      incoming.pop_front();
      if (i + window < count) post_receive(i + window);
    }
  }
  for (Token& token : outgoing) token->Wait();
  Meet(transport);
  return Seconds(Clock::now() - start) / count;
}

void Measure(Transport& transport, const char* way, int repeats) {
  for (const int64_t kib : kSizesKib) {
    const Buffers buffers(kib);
    double one_way = 1e9, stream = 1e9;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      one_way = std::min(one_way, OneWay(transport, buffers, TripsOf(kib)));
      stream = std::min(stream, Stream(transport, buffers, TripsOf(kib), 2, false));
    }
    if (transport.rank() == 0) Print(way, kib, one_way, stream);
  }
}

void MeasureWindows(Transport& transport, const char* way, int repeats) {
  for (const int64_t kib : {64, 1024, 8192}) {
    const Buffers buffers(kib);
    for (const int window : {1, 2, 4}) {
      const int count = static_cast<int>((int64_t{32} << 10) / kib);
      double one_way = 1e9, both = 1e9;
      for (int repeat = 0; repeat < repeats; ++repeat) {
        one_way = std::min(one_way, Stream(transport, buffers, count, window, false));
        both = std::min(both, Stream(transport, buffers, count, window, true));
      }
      if (transport.rank() != 0) continue;
      const double mib = static_cast<double>(kib) / 1024;
      std::printf(
          "{\"way\": \"%s\", \"kib\": %lld, \"window\": %d, \"mib_per_s\": %.0f, "
          "\"both_mib_per_s\": %.0f}\n",
          way, static_cast<long long>(kib), window, mib / one_way, 2 * mib / both);
      std::fflush(stdout);
    }
  }
}

void MeasureCopy(int repeats) {
  for (const int64_t kib : kSizesKib) {
    const Buffers buffers(kib);
    double best = 1e9;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      const auto start = Clock::now();
      for (int i = 0; i < TripsOf(kib); ++i) {
        std::memcpy(buffers.in().data(), buffers.out().data(), buffers.out().size());
        benchmark::ClobberMemory();
      }
      best = std::min(best, Seconds(Clock::now() - start) / TripsOf(kib));
    }
    Print("copy", kib, best, best);
  }
}

}  // namespace
}  // namespace thinwire::launch

int main(int argc, char** argv) {
  using thinwire::transport::SharedTransport;
  using thinwire::transport::Transport;
  const std::string_view way = argc > 1 ? argv[1] : "";
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 10;
  const int port = argc > 3 ? std::atoi(argv[3]) : 0;
  const bool windows = argc > 4 && std::string_view(argv[4]) == "windows";
  if (way == "copy" && !windows) {
    thinwire::launch::MeasureCopy(repeats);
    return 0;
  }
  if (way != "gloo" && way != "shared") return 64;
  const auto measure = [&](Transport& transport) {
    windows ? thinwire::launch::MeasureWindows(transport, argv[1], repeats)
            : thinwire::launch::Measure(transport, argv[1], repeats);
  };
  const auto codes = thinwire::transport::RunSharedProcesses(2, [&](SharedTransport& shared) {
    if (way == "shared") return measure(shared);
    thinwire::launch::LaunchEnvironment environment;
    environment.rank = shared.rank();
    environment.world = 2;
    environment.master_port = port;
    thinwire::launch::ProcessGroup group(environment, std::chrono::seconds(30), false);
    measure(group.bulk());
  });
  return codes[0] == 0 && codes[1] == 0 ? 0 : 1;
}
