// Messages between two processes of one machine over Gloo and through shared memory, by size:
// microseconds one way, and MiB/s of a stream of which two are in flight.
//   launch_near_transport_bench gloo|shared REPEATS [PORT]   PORT: a free one, for Gloo
// Prints a line of JSON per size: the best of the repeats, since neighbours only ever slow one
// down.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
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

double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

void Meet(Transport& transport) {
  std::byte out{}, in{};
  const int peer = 1 - transport.rank();
  Token receive = transport.Recv(kContext, peer, 1u << 30, {&in, 1});
  transport.Send(kContext, peer, 1u << 30, {&out, 1})->Wait();
  receive->Wait();
}

// Half of there and back; the receives are posted before the messages come.
double OneWay(Transport& transport, std::span<std::byte> out, std::span<std::byte> in, int trips) {
  const int peer = 1 - transport.rank();
  Meet(transport);
  const auto start = Clock::now();
  for (int i = 0; i < trips; ++i) {
    Token receive = transport.Recv(kContext, peer, 1, in);
    if (transport.rank() == 1) receive->Wait();
    transport.Send(kContext, peer, 1, out)->Wait();
    if (transport.rank() == 0) receive->Wait();
  }
  return Seconds(Clock::now() - start) / trips / 2;
}

// From rank 0 to rank 1: the time of one message.
double Stream(Transport& transport, std::span<std::byte> out, std::span<std::byte> in, int count) {
  const int me = transport.rank();
  std::array<Token, 2> tokens;
  Meet(transport);
  const auto start = Clock::now();
  for (int i = 0; i < count; ++i) {
    Token& token = tokens[static_cast<size_t>(i % 2)];
    if (token) token->Wait();
    token.reset();
    token = me == 0 ? transport.Send(kContext, 1, static_cast<Tag>(i), out)
                    : transport.Recv(kContext, 0, static_cast<Tag>(i), in);
  }
  for (Token& token : tokens) {
    if (token) token->Wait();
  }
  Meet(transport);
  return Seconds(Clock::now() - start) / count;
}

void Measure(Transport& transport, const char* way, int repeats) {
  for (const int64_t kib : {1, 64, 1024, 16384}) {
    const AlignedBuffer out(kib << 10), in(kib << 10);
    std::ranges::fill(out.bytes(), std::byte{1});
    std::ranges::fill(in.bytes(), std::byte{2});
    const int trips = kib >= 1024 ? 4 : 200;
    double one_way = 1e9, stream = 1e9;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      one_way = std::min(one_way, OneWay(transport, out.bytes(), in.bytes(), trips));
      stream = std::min(stream, Stream(transport, out.bytes(), in.bytes(), trips));
    }
    if (transport.rank() != 0) continue;
    std::printf("{\"way\": \"%s\", \"kib\": %lld, \"one_way_us\": %.1f, \"mib_per_s\": %.0f}\n",
                way, static_cast<long long>(kib), one_way * 1e6,
                static_cast<double>(kib) / 1024 / stream);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace thinwire::launch

int main(int argc, char** argv) {
  using thinwire::transport::SharedTransport;
  const std::string_view way = argc > 1 ? argv[1] : "";
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 10;
  if (way != "gloo" && way != "shared") return 64;
  const int port = argc > 3 ? std::atoi(argv[3]) : 0;
  const auto codes = thinwire::transport::RunSharedProcesses(2, [&](SharedTransport& shared) {
    if (way == "shared") {
      thinwire::launch::Measure(shared, argv[1], repeats);
      return;
    }
    thinwire::launch::LaunchEnvironment environment;
    environment.rank = shared.rank();
    environment.world = 2;
    environment.master_port = port;
    thinwire::launch::ProcessGroup group(environment, std::chrono::seconds(30), false);
    thinwire::launch::Measure(group.bulk(), argv[1], repeats);
  });
  return codes[0] == 0 && codes[1] == 0 ? 0 : 1;
}
