#include "thinwire/transport/shared_transport.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>

#include "thinwire/base/random.h"
#include "thinwire/transport/routed_transport.h"
#include "thinwire/transport/shared_ranks.h"
#include "thinwire/transport/thread_transport.h"

namespace thinwire::transport {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

const ExecContext kContext;

// Random, with a period that is no divisor of any ring: a piece in another's place would show.
void Fill(uint64_t key, std::span<std::byte> data) {
  constexpr size_t kPeriod = 1021;
  uint64_t state = Mix64(key);
  for (std::byte& byte : data.first(std::min(kPeriod, data.size()))) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(state >> 56);
  }
  for (size_t done = kPeriod; done < data.size();) {
    const size_t more = std::min(done, data.size() - done);
    std::memcpy(data.data() + done, data.data(), more);
    done += more;
  }
}

std::vector<std::byte> Pattern(uint64_t key, size_t bytes) {
  std::vector<std::byte> data(bytes);
  Fill(key, data);
  return data;
}

std::string ErrorOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const PeerError& error) {
    return error.what();
  }
  return "no PeerError";
}

// Every rank sends `messages` messages to every other and posts sends and receives in an order of
// its own, in more than there are slots. Sizes around those of the ring.
void AllToAll(Transport& transport, int messages) {
  const int me = transport.rank(), size = transport.size();
  const auto key = [](int from, int to, int tag) {
    return static_cast<uint64_t>((from * 100 + to) * 1000 + tag);
  };
  const auto bytes = [&](int from, int to, int tag) -> size_t {
    if (tag == 0) return 1;
    if (tag == 1) return kStageBytes;
    if (tag == 2) return 3 * kStageBytes + 12345;
    return 1 + Mix64(key(from, to, tag)) % (size_t{1} << (4 + tag % 14));
  };
  struct Job {
    int peer, tag;
    bool send;
    std::vector<std::byte> data;
    Token token;
  };
  std::vector<Job> jobs;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == me) continue;
    for (int tag = 0; tag < messages; ++tag) {
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
    THINWIRE_CHECK(job.data == Pattern(key(job.peer, me, job.tag), job.data.size()), "rank ", me,
                   " from ", job.peer, " tag ", job.tag);
  }
}

void OnThreads(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

TEST(SharedTransport, MatchesByTagInAnyOrder) {
  for (const int size : {1, 2, 4}) {
    const auto fabric = SharedFabric(size);
    OnThreads(size, [&](int rank) { AllToAll(*fabric[static_cast<size_t>(rank)], 40); });
  }
}

TEST(SharedTransport, ProcessesExchange) {
  for (const int size : {2, 4}) {
    const auto codes =
        RunSharedProcesses(size, [](SharedTransport& transport) { AllToAll(transport, 40); });
    EXPECT_EQ(codes, std::vector<int>(static_cast<size_t>(size), 0));
  }
}

// Two threads of each rank wait at once, each for messages of its own.
TEST(SharedTransport, ThreadsOfOneRankWaitTogether) {
  const auto fabric = SharedFabric(2);
  OnThreads(4, [&](int thread) {
    Transport& transport = *fabric[static_cast<size_t>(thread % 2)];
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

TEST(SharedTransport, OldestOfOneTagFirst) {
  const auto fabric = SharedFabric(2);
  OnThreads(2, [&](int rank) {
    std::vector<std::vector<std::byte>> data;
    std::vector<Token> tokens;
    for (size_t i = 1; i <= 40; ++i) data.emplace_back(i);
    for (auto& each : data) {
      tokens.push_back(rank == 0 ? fabric[0]->Send(kContext, 1, 7, each)
                                 : fabric[1]->Recv(kContext, 0, 7, each));
    }
    for (Token& token : tokens) token->Wait();
  });
}

TEST(SharedTransport, SizeMismatchFailsBothSides) {
  for (const int second : {0, 1}) {
    const auto fabric = SharedFabric(2);
    std::vector<std::byte> out(10), in(20);
    Token tokens[2];
    const auto post = [&](int rank) {
      tokens[rank] =
          rank == 0 ? fabric[0]->Send(kContext, 1, 5, out) : fabric[1]->Recv(kContext, 0, 5, in);
    };
    post(1 - second);
    post(second);
    for (const int side : {1, 0}) {
      EXPECT_EQ(ErrorOf([&] { tokens[side]->Wait(); }),
                "rank 0 sends 10 bytes to rank 1 under tag 5, which expects 20");
    }
  }
}

TEST(SharedTransport, AbortWakesOwnWaitersAndThoseOfPeers) {
  const auto fabric = SharedFabric(3);
  std::atomic<int> waiting{0};
  std::thread aborter([&] {
    while (waiting.load() < 2) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(20));
    fabric[2]->Abort("disk full");
    fabric[2]->Abort("second reason");
  });
  OnThreads(3, [&](int rank) {
    if (rank == 0) return;
    Transport& transport = *fabric[static_cast<size_t>(rank)];
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
    if (rank == 0) fabric[0]->Send(kContext, 1, 3, data)->Wait();
    if (rank == 1) fabric[1]->Recv(kContext, 0, 3, data)->Wait();
  });
}

TEST(SharedTransport, DroppedTokenWithdrawsItsMessage) {
  const auto fabric = SharedFabric(2);
  const std::vector<std::byte> sent = Pattern(3, 64);
  {
    auto gone = std::make_unique<std::vector<std::byte>>(64);
    fabric[1]->Recv(kContext, 0, 1, *gone);
    fabric[0]->Send(kContext, 1, 2, *gone);
  }
  // Must not be written into the vector that is gone, nor come from it.
  Token first = fabric[0]->Send(kContext, 1, 1, sent);
  Token second = fabric[0]->Send(kContext, 1, 2, sent);
  for (const Tag tag : {1u, 2u}) {
    std::vector<std::byte> received(64);
    fabric[1]->Recv(kContext, 0, tag, received)->Wait();
    EXPECT_EQ(received, sent);
  }
  first->Wait();
  second->Wait();
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

// Drops race with matches; under asan and tsan a copy into freed memory would show.
TEST(SharedTransport, DropsRaceWithCopies) {
  const auto fabric = SharedFabric(2);
  std::barrier sync(2);
  OnThreads(2, [&](int rank) {
    for (int round = 0; round < 200; ++round) {
      auto data = std::make_unique<std::vector<std::byte>>(1 << 16);
      sync.arrive_and_wait();
      if (rank == 0) {
        fabric[0]->Send(kContext, 1, 1, *data);
      } else {
        fabric[1]->Recv(kContext, 0, 1, *data);
      }
      data.reset();
      sync.arrive_and_wait();
    }
  });
  OnThreads(2, [&](int rank) { AllToAll(*fabric[static_cast<size_t>(rank)], 3); });
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
TEST(SharedSegmentFile, HasNoName) {
  const auto fabric = SharedFabric(2);
  AllToAll(*fabric[0], 0);
  if (!std::filesystem::exists("/dev/shm")) return;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) {
    EXPECT_EQ(file.path().filename().string().find("thinwire"), std::string::npos);
  }
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
