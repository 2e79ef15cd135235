#include "thinwire/transport/thread_transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <new>

#include "thinwire/base/error.h"
#include "thinwire/transport/in_process_board.h"
#include "thinwire/transport/testing.h"
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
