#include "thinwire/transport/fault_transport.h"

#include <gtest/gtest.h>

#include "thinwire/base/error.h"
#include "thinwire/transport/thread_ranks.h"

namespace thinwire::transport {
namespace {

using std::chrono::milliseconds;

const ExecContext kContext;

// What becomes of each of four messages from rank 0, of which rank 1 receives those that are sent:
// 'k' went through, 'f' failed.
std::string FourSends(Fault fault) {
  ThreadFabric fabric(2);
  FaultTransport faulty(fabric.transport(0), fault);
  std::string outcomes;
  std::byte out{1}, in{};
  for (Tag tag = 0; tag < 4; ++tag) {
    Token receive = fabric.transport(1).Recv(kContext, 0, tag, {&in, 1});
    try {
      faulty.Send(kContext, 1, tag, {&out, 1})->Wait();
      receive->Wait();
      outcomes += 'k';
    } catch (const PeerError&) {
      outcomes += 'f';
    }
  }
  EXPECT_EQ(faulty.posted(), 4);
  return outcomes;
}

TEST(FaultTransport, FailsOnceOrForGood) {
  EXPECT_EQ(FourSends({.kind = Fault::Kind::kFailOnce, .message = 2}), "kfkk");
  EXPECT_EQ(FourSends({.kind = Fault::Kind::kFail, .message = 2}), "kfff");
  EXPECT_EQ(FourSends({.kind = Fault::Kind::kFail, .message = 5}), "kkkk");
}

TEST(FaultTransport, DelaysOneMessage) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(FourSends({Fault::Kind::kDelay, 3, milliseconds(30)}), "kkkk");
  const auto elapsed = std::chrono::steady_clock::now() - start;
  EXPECT_GE(elapsed, milliseconds(30));
  EXPECT_LT(elapsed, milliseconds(90));
}

TEST(FaultTransport, DamagesOneSend) {
  ThreadFabric fabric(2);
  FaultTransport faulty(fabric.transport(0), {.kind = Fault::Kind::kDamage, .message = 2});
  std::array<std::byte, 4> sent{}, got{};
  for (const int expected : {0, 1, 0}) {
    const Token in = fabric.transport(1).Recv(kContext, 0, 0, got);
    faulty.Send(kContext, 1, 0, sent)->Wait();
    in->Wait();
    EXPECT_EQ(got, (std::array<std::byte, 4>{{{}, {}, {}, static_cast<std::byte>(expected)}}));
    EXPECT_EQ(sent[3], std::byte{0});
  }
}

TEST(FaultTransport, StallsUntilAborted) {
  for (const bool stall_send : {true, false}) {
    ThreadFabric fabric(2);
    FaultTransport faulty(fabric.transport(0), {.kind = Fault::Kind::kStall, .message = 1});
    std::byte byte{};
    Token token = stall_send ? faulty.Send(kContext, 1, 0, {&byte, 1})
                             : faulty.Recv(kContext, 1, 0, {&byte, 1});
    // The peer's side of the message must not complete it.
    std::byte other{};
    Token peer = stall_send ? fabric.transport(1).Recv(kContext, 0, 0, {&other, 1})
                            : fabric.transport(1).Send(kContext, 0, 0, {&other, 1});
    std::thread aborter([&] {
      std::this_thread::sleep_for(milliseconds(20));
      faulty.Abort("enough");
    });
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THROW(token->Wait(), PeerError);
    EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(10));
    EXPECT_THROW(peer->Wait(), PeerError);
    aborter.join();
  }
}

}  // namespace
}  // namespace thinwire::transport
