// What every transport between ranks of one machine promises, as threads of one process.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <memory>

#include "thinwire/transport/shared_ranks.h"
#include "thinwire/transport/testing.h"
#include "thinwire/transport/thread_transport.h"

namespace thinwire::transport {
namespace {

using std::chrono::milliseconds;

struct Threads {
  explicit Threads(int size) : fabric(std::make_unique<ThreadFabric>(size)) {}
  Transport& operator[](int rank) const { return fabric->transport(rank); }

  std::unique_ptr<ThreadFabric> fabric;
};

struct SharedMemory {
  explicit SharedMemory(int size) : fabric(SharedFabric(size)) {}
  Transport& operator[](int rank) const { return *fabric[static_cast<size_t>(rank)]; }

  std::vector<std::unique_ptr<SharedTransport>> fabric;
};

template <typename Fabric>
class TransportContract : public testing::Test {};

class NameOfFabric {
 public:
  template <typename Fabric>
  static std::string GetName(int) {
    return std::is_same_v<Fabric, Threads> ? "threads" : "shared_memory";
  }
};
using Fabrics = testing::Types<Threads, SharedMemory>;
TYPED_TEST_SUITE(TransportContract, Fabrics, NameOfFabric);

TYPED_TEST(TransportContract, MatchesByTagInAnyOrder) {
  for (const int size : {1, 2, 3, 4, 8}) {
    const TypeParam fabric(size);
    OnThreads(size, [&](int rank) { AllToAll(fabric[rank], 40); });
  }
}

// Two threads of each rank wait at once, each for messages of its own.
TYPED_TEST(TransportContract, ThreadsOfOneRankWaitTogether) {
  const TypeParam fabric(2);
  OnThreads(4, [&](int thread) {
    Transport& transport = fabric[thread % 2];
    const auto tag = static_cast<Tag>(thread / 2);
    std::vector<std::byte> out(200'000), in(out.size());
    for (uint64_t round = 0; round < 30; ++round) {
      Fill(2 * round + tag, out);
      Token receive = transport.Recv(kContext, 1 - thread % 2, tag, in);
      Token send = transport.Send(kContext, 1 - thread % 2, tag, out);
      receive->Wait();
      send->Wait();
      EXPECT_EQ(in, out);
    }
  });
}

TYPED_TEST(TransportContract, OldestOfOneTagFirst) {
  const TypeParam fabric(2);
  OnThreads(2, [&](int rank) {
    std::vector<std::vector<std::byte>> data;
    std::vector<Token> tokens;
    for (size_t i = 1; i <= 40; ++i) data.emplace_back(i);
    for (auto& each : data) {
      tokens.push_back(rank == 0 ? fabric[0].Send(kContext, 1, 7, each)
                                 : fabric[1].Recv(kContext, 0, 7, each));
    }
    for (Token& token : tokens) token->Wait();
  });
}

TYPED_TEST(TransportContract, SizeMismatchFailsBothSides) {
  for (const int second : {0, 1}) {
    const TypeParam fabric(2);
    std::vector<std::byte> out(10), in(20);
    Token tokens[2];
    const auto post = [&](int rank) {
      tokens[rank] =
          rank == 0 ? fabric[0].Send(kContext, 1, 5, out) : fabric[1].Recv(kContext, 0, 5, in);
    };
    post(1 - second);
    post(second);
    for (const int side : {1, 0}) {
      EXPECT_EQ(ErrorOf([&] { tokens[side]->Wait(); }),
                "rank 0 sends 10 bytes to rank 1 under tag 5, which expects 20");
    }
  }
}

TYPED_TEST(TransportContract, AbortWakesOwnWaitersAndThoseOfPeers) {
  const TypeParam fabric(3);
  std::atomic<int> waiting{0};
  std::thread aborter([&] {
    while (waiting.load() < 2) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(20));
    fabric[2].Abort("disk full");
    fabric[2].Abort("second reason");
  });
  OnThreads(3, [&](int rank) {
    if (rank == 0) return;
    Transport& transport = fabric[rank];
    std::vector<std::byte> data(8);
    const int peer = rank == 1 ? 2 : 0;
    Token token = transport.Recv(kContext, peer, 1, data);
    ++waiting;
    const std::string expected = rank == 1 ? "rank 2 aborted: disk full" : "disk full";
    EXPECT_EQ(ErrorOf([&] { token->Wait(); }), expected);
    EXPECT_EQ(ErrorOf([&] { transport.Send(kContext, peer, 2, data); }), expected);
  });
  aborter.join();
  // Ranks 0 and 1 still have each other.
  OnThreads(2, [&](int rank) {
    std::vector<std::byte> data(8);
    if (rank == 0) fabric[0].Send(kContext, 1, 3, data)->Wait();
    if (rank == 1) fabric[1].Recv(kContext, 0, 3, data)->Wait();
  });
}

TYPED_TEST(TransportContract, DroppedTokenWithdrawsItsMessage) {
  const TypeParam fabric(2);
  const std::vector<std::byte> sent = Pattern(3, 64);
  {
    auto gone = std::make_unique<std::vector<std::byte>>(64);
    fabric[1].Recv(kContext, 0, 1, *gone);
    fabric[0].Send(kContext, 1, 2, *gone);
  }
  // Must not be written into the vector that is gone, nor come from it.
  Token first = fabric[0].Send(kContext, 1, 1, sent);
  Token second = fabric[0].Send(kContext, 1, 2, sent);
  for (const Tag tag : {1u, 2u}) {
    std::vector<std::byte> received(64);
    fabric[1].Recv(kContext, 0, tag, received)->Wait();
    EXPECT_EQ(received, sent);
  }
  first->Wait();
  second->Wait();
}

// Drops race with matches; under asan and tsan a copy into freed memory would show.
TYPED_TEST(TransportContract, DropsRaceWithCopies) {
  const TypeParam fabric(2);
  std::barrier sync(2);
  OnThreads(2, [&](int rank) {
    for (int round = 0; round < 200; ++round) {
      auto data = std::make_unique<std::vector<std::byte>>(1 << 16);
      sync.arrive_and_wait();
      if (rank == 0) {
        fabric[0].Send(kContext, 1, 1, *data);
      } else {
        fabric[1].Recv(kContext, 0, 1, *data);
      }
      data.reset();
      sync.arrive_and_wait();
    }
  });
  OnThreads(2, [&](int rank) { AllToAll(fabric[rank], 3); });
}

}  // namespace
}  // namespace thinwire::transport
