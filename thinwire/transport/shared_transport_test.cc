#include "thinwire/transport/shared_transport.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <iterator>

#include "thinwire/transport/routed_transport.h"
#include "thinwire/transport/shared_ranks.h"
#include "thinwire/transport/testing.h"
#include "thinwire/transport/thread_transport.h"

namespace thinwire::transport {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

TEST(SharedTransport, ProcessesExchange) {
  for (const int size : {2, 4}) {
    const auto codes =
        RunSharedProcesses(size, [](SharedTransport& transport) { AllToAll(transport, 40); });
    EXPECT_EQ(codes, std::vector<int>(static_cast<size_t>(size), 0));
  }
}

// Half way: the rest can never come, which the other side is told.
TEST(SharedTransport, AMessageGivenUpHalfWayFailsThePeer) {
  for (const int dropper : {0, 1}) {
    const auto fabric = SharedFabric(2);
    std::vector<std::byte> out(4 * kStageBytes), in(out.size());
    Token send = fabric[0]->Send(kContext, 1, 1, out);
    Token receive = fabric[1]->Recv(kContext, 0, 1, in);  // takes what is in the ring
    (dropper == 0 ? send : receive).reset();
    EXPECT_EQ(ErrorOf([&] { (dropper == 0 ? receive : send)->Wait(); }),
              dropper == 0 ? "rank 0 withdrew a message to rank 1 under tag 1"
                           : "rank 1 gave up a message of rank 0 under tag 1");
    // The slot is of use again, and so is the tag.
    OnThreads(2, [&](int rank) {
      if (rank == 0) fabric[0]->Send(kContext, 1, 1, out)->Wait();
      if (rank == 1) fabric[1]->Recv(kContext, 0, 1, in)->Wait();
    });
  }
}

// The last rank dies while all others wait for it, one of them in the middle of a message.
TEST(SharedTransport, SurvivorsOfAKilledRankGetAnError) {
  const auto codes = RunSharedProcesses(3, [](SharedTransport& transport) {
    AllToAll(transport, 4);
    const int me = transport.rank();
    std::vector<std::byte> large(16 << 20);
    if (me == 2) {
      const Token half = transport.Send(kContext, 1, 1, large);
      std::this_thread::sleep_for(milliseconds(100));
      raise(SIGKILL);
    }
    const std::string lost = StrCat("rank ", me, " lost contact with rank 2: ");
    const auto expect_lost = [&](const std::string& error) {
      THINWIRE_CHECK(error.starts_with(lost), error);
    };
    // The message needs its sender for what does not fit into the ring.
    if (me == 1) expect_lost(ErrorOf([&] { transport.Recv(kContext, 2, 1, large)->Wait(); }));
    const auto start = Clock::now();
    expect_lost(ErrorOf([&] { transport.Recv(kContext, 2, 9, large)->Wait(); }));
    expect_lost(ErrorOf([&] { transport.Send(kContext, 2, 2, large)->Wait(); }));
    THINWIRE_CHECK(Clock::now() - start < milliseconds(3000));
    // The other survivor is still there.
    std::byte out{}, in{};
    Token receive = transport.Recv(kContext, 1 - me, 3, {&in, 1});
    transport.Send(kContext, 1 - me, 3, {&out, 1})->Wait();
    receive->Wait();
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 0, -SIGKILL}));
}

// A rank that stands still is waited for until the watchdog calls Abort(), which ends all waits.
TEST(SharedTransport, AStoppedPeerHangsNeitherAbortNorDrop) {
  const auto codes = RunSharedProcesses(2, [](SharedTransport& transport) {
    std::vector<std::byte> data(1 << 22);
    pid_t pid = getpid();
    const auto pid_bytes = std::as_writable_bytes(std::span(&pid, 1));
    if (transport.rank() == 1) {
      transport.Send(kContext, 0, 0, pid_bytes)->Wait();
      const Token half = transport.Recv(kContext, 0, 1, data);
      raise(SIGSTOP);  // the other one ends it
    }
    transport.Recv(kContext, 1, 0, pid_bytes)->Wait();
    std::this_thread::sleep_for(milliseconds(50));
    Token send = transport.Send(kContext, 1, 1, data);
    std::thread watchdog([&] {
      std::this_thread::sleep_for(milliseconds(100));
      transport.Abort("rank 1 is silent");
    });
    const std::string error = ErrorOf([&] { send->Wait(); });
    watchdog.join();
    send.reset();
    kill(pid, SIGKILL);
    THINWIRE_CHECK(error == "rank 1 is silent", error);
  });
  EXPECT_EQ(codes, (std::vector<int>{0, -SIGKILL}));
}

TEST(SharedDoor, AStrangerIsNoRank) {
  const std::array<SharedDoor, 2> doors;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  doors[0].name().copy(address.sun_path + 1, sizeof(address.sun_path) - 1);
  const int stranger = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(
      connect(stranger, reinterpret_cast<const sockaddr*>(&address),
              static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + doors[0].name().size())),
      0);
  const std::vector<char> noise(1000, 'x');
  ASSERT_EQ(send(stranger, noise.data(), noise.size(), MSG_NOSIGNAL), 1000);
  OnThreads(2, [&](int rank) {
    const MeetingResult met = doors[static_cast<size_t>(rank)].Meet(
        {.names = {doors[0].name(), doors[1].name()}, .me = rank});
    EXPECT_EQ(met.failure, "");
    EXPECT_EQ(met.peers.size(), 1u);
  });
  close(stranger);
}

TEST(SharedDoor, WhoIsNotThereIsNamedInTime) {
  const SharedDoor door;
  const auto start = Clock::now();
  EXPECT_NE(door.Meet({.names = {"thinwire-nobody", door.name()}, .me = 1})
                .failure.find("connecting to a rank of this machine"),
            std::string::npos);
  EXPECT_EQ(
      door.Meet({.names = {door.name(), "thinwire-nobody"}, .me = 0, .patience = milliseconds(100)})
          .failure,
      "a rank of this machine did not come to the meeting");
  EXPECT_LT(Clock::now() - start, milliseconds(3000));
}

// Nothing of it is in /dev/shm, so none of it can be left there, and none of its room is needed.
// Other processes may have files there.
TEST(SharedSegmentFile, HasNoName) {
  const auto fabric = SharedFabric(2);
  std::ifstream file("/proc/self/maps");
  const std::string maps((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(maps.find("/memfd:thinwire"), std::string::npos);
  EXPECT_EQ(maps.find("/dev/shm"), std::string::npos);
}

// Ranks 0 and 1 share memory, rank 2 is elsewhere.
TEST(RoutedTransport, NearAndFar) {
  ThreadFabric far(3);
  const auto near = SharedFabric(3);
  OnThreads(3, [&](int rank) {
    std::vector<bool> near_peers = {rank != 2, rank != 2, false};
    RoutedTransport routed(*near[static_cast<size_t>(rank)], near_peers, far.transport(rank));
    AllToAll(routed, 10);
  });
  RoutedTransport routed(*near[0], {true, true, false}, far.transport(0));
  routed.Abort("over");
  std::vector<std::byte> data(1);
  for (const int peer : {1, 2}) {
    EXPECT_EQ(ErrorOf([&] { routed.Send(kContext, peer, 1, data); }), "over");
  }
}

}  // namespace
}  // namespace thinwire::transport
