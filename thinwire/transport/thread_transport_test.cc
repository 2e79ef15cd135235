#include "thinwire/transport/thread_transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <new>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/transport/in_process_board.h"
#include "thinwire/transport/thread_ranks.h"

namespace {
std::atomic<int64_t> allocations{0};  // NOLINT(mutable-global): operator new takes no context
}

// Never inlined: GCC would see free() on what it takes for the standard operator new.
[[gnu::noinline]] void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace thinwire::transport {
namespace {

const ExecContext kContext;

std::vector<std::byte> Pattern(uint64_t key, size_t bytes) {
  const CounterRandom random(key);
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(random.Bits(i));
  return data;
}

std::span<const std::byte> Bytes(const std::vector<std::byte>& data) { return data; }

std::string ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const PeerError& error) {
    return error.what();
  }
  return "no PeerError";
}

class AllToAll : public testing::TestWithParam<int> {};

// Every rank sends `kMessages` messages to every other and posts sends and receives in an order of
// its own.
TEST_P(AllToAll, MatchesByTagInAnyOrder) {
  constexpr int kMessages = 40;
  const int size = GetParam();
  const auto key = [](int from, int to, int tag) {
    return static_cast<uint64_t>((from * 100 + to) * 1000 + tag);
  };
  const auto bytes = [&](int from, int to, int tag) {
    return 1 + Mix64(key(from, to, tag)) % 5000;
  };
  RunRanks(size, [&](Transport& transport) {
    struct Job {
      int peer, tag;
      bool send;
      std::vector<std::byte> data;
      Token token;
    };
    const int me = transport.rank();
    std::vector<Job> jobs;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == me) continue;
      for (int tag = 0; tag < kMessages; ++tag) {
        jobs.push_back({peer, tag, true, Pattern(key(me, peer, tag), bytes(me, peer, tag)), {}});
        jobs.push_back({peer, tag, false, std::vector<std::byte>(bytes(peer, me, tag)), {}});
      }
    }
    const CounterRandom random(static_cast<uint64_t>(me));
    for (size_t i = jobs.size(); i > 1; --i) std::swap(jobs[i - 1], jobs[random.Bits(i) % i]);
    for (Job& job : jobs) {
      const auto tag = static_cast<Tag>(job.tag);
      job.token = job.send ? transport.Send(kContext, job.peer, tag, job.data)
                           : transport.Recv(kContext, job.peer, tag, job.data);
    }
    for (Job& job : jobs) job.token->Wait();
    for (const Job& job : jobs) {
      if (job.send) continue;
      EXPECT_EQ(job.data, Pattern(key(job.peer, me, job.tag), job.data.size()));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, AllToAll, testing::Values(1, 2, 3, 4, 8));

TEST(ThreadTransport, OldestOfOneTagFirst) {
  RunRanks(2, [](Transport& transport) {
    std::vector<std::byte> data[2] = {std::vector<std::byte>(1), std::vector<std::byte>(2)};
    std::vector<Token> tokens;
    for (auto& each : data) {
      tokens.push_back(transport.rank() == 0 ? transport.Send(kContext, 1, 7, each)
                                             : transport.Recv(kContext, 0, 7, each));
    }
    for (Token& token : tokens) token->Wait();
  });
}

TEST(ThreadTransport, SizeMismatchFailsBothSides) {
  for (const int second : {0, 1}) {
    ThreadFabric fabric(2);
    std::vector<std::byte> data(100);
    Token tokens[2];
    const auto post = [&](int rank) {
      tokens[rank] =
          rank == 0 ? fabric.transport(0).Send(kContext, 1, 5, Bytes(data).first(10))
                    : fabric.transport(1).Recv(kContext, 0, 5, std::span(data).subspan(10, 20));
    };
    post(1 - second);
    post(second);
    for (Token& token : tokens) {
      EXPECT_EQ(ErrorOf([&] { token->Wait(); }),
                "rank 0 sends 10 bytes to rank 1 under tag 5, which expects 20");
    }
  }
}

TEST(ThreadTransport, AbortWakesOwnWaitersAndThoseOfPeers) {
  ThreadFabric fabric(3);
  std::atomic<int> waiting{0};
  std::thread aborter([&] {
    while (waiting.load() < 2) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    fabric.transport(2).Abort("disk full");
    fabric.transport(2).Abort("second reason");
  });
  RunRanks(fabric, [&](int rank) {
    if (rank == 0) return;
    Transport& transport = fabric.transport(rank);
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
  RunRanks(fabric, [&](int rank) {
    std::vector<std::byte> data(8);
    if (rank == 0) fabric.transport(0).Send(kContext, 1, 3, data)->Wait();
    if (rank == 1) fabric.transport(1).Recv(kContext, 0, 3, data)->Wait();
  });
}

TEST(ThreadTransport, DroppedTokenWithdrawsItsMessage) {
  ThreadFabric fabric(2);
  {
    auto gone = std::make_unique<std::vector<std::byte>>(64);
    fabric.transport(1).Recv(kContext, 0, 1, *gone);
  }
  // Must not be written into the vector that is gone, but wait for the second receive.
  const std::vector<std::byte> sent = Pattern(3, 64);
  Token send = fabric.transport(0).Send(kContext, 1, 1, sent);
  std::vector<std::byte> received(64);
  fabric.transport(1).Recv(kContext, 0, 1, received)->Wait();
  send->Wait();
  EXPECT_EQ(received, sent);
}

// Drops race with matches; under asan and tsan a copy into freed memory would show.
TEST(ThreadTransport, DropsRaceWithCopies) {
  ThreadFabric fabric(2);
  constexpr size_t kBytes = 1 << 16;
  std::barrier sync(2);
  RunRanks(fabric, [&](int rank) {
    for (int round = 0; round < 200; ++round) {
      auto data = std::make_unique<std::vector<std::byte>>(kBytes);
      sync.arrive_and_wait();
      if (rank == 0) {
        fabric.transport(0).Send(kContext, 1, 1, *data);
      } else {
        fabric.transport(1).Recv(kContext, 0, 1, *data);
      }
      data.reset();
      sync.arrive_and_wait();
    }
  });
}

TEST(ThreadTransport, AllocatesNothingAfterWarmUp) {
  ThreadFabric fabric(3);
  InProcessBoard board(3);
  std::barrier sync(3);
  int64_t allocated = -1;
  RunRanks(fabric, [&](int rank) {
    Transport& transport = fabric.transport(rank);
    std::vector<std::byte> out(1000), in(2 * out.size());
    std::vector<Token> tokens;
    tokens.reserve(4);
    for (int step = 0; step < 50; ++step) {
      sync.arrive_and_wait();
      if (step == 1 && rank == 0) allocated = -allocations.load();
      sync.arrive_and_wait();
      for (size_t hop = 1; hop <= 2; ++hop) {
        const int peer = (rank + static_cast<int>(hop)) % 3;
        const auto room = std::span(in).subspan((hop - 1) * out.size(), out.size());
        tokens.push_back(transport.Recv(kContext, peer, 9, room));
      }
      // All receives first, in every step: the most messages there can be at once.
      sync.arrive_and_wait();
      for (const int hop : {1, 2}) {
        tokens.push_back(transport.Send(kContext, (rank + hop) % 3, 9, out));
      }
      for (Token& token : tokens) token->Wait();
      sync.arrive_and_wait();
      tokens.clear();
      board.Publish(rank, step);
      EXPECT_TRUE(board.FirstFailure().empty());
    }
    sync.arrive_and_wait();
    if (rank == 0) allocated += allocations.load();
    sync.arrive_and_wait();
  });
  EXPECT_EQ(allocated, 0);
}

TEST(RunRanks, RethrowsTheCauseNotItsEcho) {
  EXPECT_THROW(RunRanks(3,
                        [](Transport& transport) {
                          std::vector<std::byte> data(1);
                          if (transport.rank() == 1) throw IoError("the cause");
                          transport.Recv(kContext, 2 - transport.rank(), 0, data)->Wait();
                        }),
               IoError);
}

TEST(InProcessBoard, ShowsBeatsUntilFrozenAndTheFirstFailure) {
  InProcessBoard board(2);
  EXPECT_EQ(board.Read(1), -1);
  board.Publish(1, 4);
  board.Freeze(1);
  board.Publish(1, 5);
  EXPECT_EQ(board.Read(1), 4);
  EXPECT_EQ(board.FirstFailure(), "");
  board.DeclareFailure("rank 1 is silent");
  board.DeclareFailure("rank 0 lost contact");
  EXPECT_EQ(board.FirstFailure(), "rank 1 is silent");
}

}  // namespace
}  // namespace thinwire::transport
