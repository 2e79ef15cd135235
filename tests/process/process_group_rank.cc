// One rank of process_group_test: joins the others by the launcher's variables and plays a
// scenario.
//   process_group_rank SCENARIO DEADLINE_MS [LINK]
// LINK: `network` without shared memory, `mixed` with it on all ranks but 1, `apart` with it where
// each rank is said to be a host of its own; else on all.
// Exit code 0 when all went as the scenario expects, 2 after a UsageError, 3 after a PeerError.
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <thread>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/launch/process_group.h"
#include "thinwire/torch/torch_log.h"

namespace thinwire::launch {
namespace {

using std::chrono::milliseconds;
using transport::Tag;
using transport::Token;
using transport::Transport;

const ExecContext kContext;

int64_t NowMs() {
  return std::chrono::duration_cast<milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A function of the message alone, so that the receiver knows what must come. 1 byte to 8 MiB,
// every power of two as likely, and both ends for certain.
size_t BytesOf(uint64_t message, Tag tag) {
  if (tag < 2) return tag == 0 ? 1 : size_t{8} << 20;
  const CounterRandom random(message);
  const size_t top = size_t{1} << (random.Bits(0) % 24);
  return top == 1 ? 1 : top / 2 + 1 + random.Bits(1) % (top / 2);
}

void Fill(uint64_t message, std::vector<std::byte>& data) {
  uint64_t state = Mix64(message);
  for (std::byte& byte : data) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(state >> 56);
  }
}

// Each rank sends `messages` messages to every other and posts sends and receives in its own order.
void Exchange(Transport& transport, uint64_t key, Tag messages) {
  struct Job {
    int peer;
    Tag tag;
    bool send;
    std::vector<std::byte> data;
    uint64_t message;
    Token token;
  };
  const int me = transport.rank();
  const auto id = [&](int from, int to, Tag tag) {
    return HashBytes(StrCat(key, "/", from, "/", to, "/", tag));
  };
  std::vector<Job> jobs;
  for (int peer = 0; peer < transport.size(); ++peer) {
    if (peer == me) continue;
    for (Tag tag = 0; tag < messages; ++tag) {
      for (const bool send : {true, false}) {
        const uint64_t message = send ? id(me, peer, tag) : id(peer, me, tag);
        std::vector<std::byte> data(BytesOf(message, tag));
        if (send) Fill(message, data);
        jobs.push_back({peer, (Tag{1} << 31) - 1 - tag, send, std::move(data), message, {}});
      }
    }
  }
  const CounterRandom random(key + static_cast<uint64_t>(me));
  for (size_t i = jobs.size(); i > 1; --i) std::swap(jobs[i - 1], jobs[random.Bits(i) % i]);
  for (Job& job : jobs) {
    job.token = job.send ? transport.Send(kContext, job.peer, job.tag, job.data)
                         : transport.Recv(kContext, job.peer, job.tag, job.data);
  }
  for (Job& job : jobs) job.token->Wait();
  for (const Job& job : jobs) {
    if (job.send) continue;
    std::vector<std::byte> expected(job.data.size());
    Fill(job.message, expected);
    THINWIRE_CHECK(job.data == expected, "rank ", me, " from ", job.peer, " tag ", job.tag);
  }
}

void ExpectPeerError(const char* what, const std::function<void()>& call) {
  const int64_t start = NowMs();
  try {
    call();
  } catch (const PeerError& error) {
    std::printf("%s after %lld ms: %s\n", what, static_cast<long long>(NowMs() - start),
                error.what());
    std::fflush(stdout);
    return;
  }
  THINWIRE_CHECK(false, what, ": no PeerError");
}

// All ranks, over the board alone.
void AwaitBeats(ProcessGroup& group, int64_t beat) {
  group.board().Publish(group.bulk().rank(), beat);
  for (int rank = 0; rank < group.bulk().size(); ++rank) {
    while (group.board().Read(rank) < beat) std::this_thread::sleep_for(milliseconds(5));
  }
}

void PlayExchange(ProcessGroup& group) {
  for (const std::string& machine : group.machine_of_rank()) {
    THINWIRE_CHECK(machine == group.machine_of_rank()[0] && machine.size() > 2, machine);
  }
  std::exception_ptr error;
  std::thread control([&] {
    try {
      Exchange(group.control(), 1, 12);
    } catch (...) {
      error = std::current_exception();
    }
  });
  Exchange(group.bulk(), 2, 12);
  control.join();
  if (error) std::rethrow_exception(error);
}

void PlayBoard(ProcessGroup& group) {
  const int me = group.bulk().rank(), size = group.bulk().size();
  auto& board = group.board();
  THINWIRE_CHECK(board.Read((me + 1) % size) >= -1);
  THINWIRE_CHECK(board.FirstFailure().empty());
  AwaitBeats(group, 7);
  if (me == 1) board.DeclareFailure("first");
  AwaitBeats(group, 8);
  board.DeclareFailure("later");
  THINWIRE_CHECK(board.FirstFailure() == "first", board.FirstFailure());
  AwaitBeats(group, 9);
}

// The last rank dies while all others wait for it, on both channels.
void PlayKilled(ProcessGroup& group) {
  Exchange(group.bulk(), 3, 4);
  const int victim = group.bulk().size() - 1;
  if (group.bulk().rank() == victim) {
    std::this_thread::sleep_for(milliseconds(200));
    raise(SIGKILL);
  }
  std::byte data{};
  Token bulk = group.bulk().Recv(kContext, victim, 1, {&data, 1});
  Token control = group.control().Recv(kContext, victim, 1, {&data, 1});
  ExpectPeerError("bulk", [&] { bulk->Wait(); });
  ExpectPeerError("control", [&] { control->Wait(); });
  ExpectPeerError("later send", [&] {
    group.bulk().Send(kContext, victim, 2, {&data, 1})->Wait();
  });
  group.bulk().Abort("the victim is dead");
}

// Rank 0, which hosts the store, stops or dies.
void PlayStoreHost(ProcessGroup& group, int signal) {
  AwaitBeats(group, 1);
  if (group.bulk().rank() == 0) {
    std::this_thread::sleep_for(milliseconds(100));
    raise(signal);
    return;
  }
  std::this_thread::sleep_for(milliseconds(300));
  ExpectPeerError("board", [&] {
    while (true) group.board().Read(0);
  });
  ExpectPeerError("again", [&] { group.board().DeclareFailure("nobody hears it"); });
  group.bulk().Abort("rank 0 is gone");
}

void PlayAbort(ProcessGroup& group) {
  if (group.bulk().rank() == 0) {
    std::byte data{};
    std::thread aborter([&] {
      std::this_thread::sleep_for(milliseconds(100));
      group.bulk().Abort("tired of waiting");
    });
    Token first = group.bulk().Recv(kContext, 1, 1, {&data, 1});
    Token second = group.bulk().Recv(kContext, 1, 2, {&data, 1});
    ExpectPeerError("first", [&] { first->Wait(); });
    ExpectPeerError("second", [&] { second->Wait(); });
    ExpectPeerError("later", [&] { group.bulk().Recv(kContext, 1, 3, {&data, 1}); });
    aborter.join();
  }
}

// A receive that was dropped takes no message, and later ones under its tag work.
void PlayDrop(ProcessGroup& group) {
  Transport& transport = group.bulk();
  for (int round = 0; round < 20; ++round) {
    const auto tag = static_cast<Tag>(round);
    std::vector<std::byte> data(1 << 20);
    if (transport.rank() == 0) {
      { Token dropped = transport.Recv(kContext, 1, 1000, data); }
      Token real = transport.Recv(kContext, 1, tag, data);
      real->Wait();
      THINWIRE_CHECK(data.back() == static_cast<std::byte>(round));
    } else {
      std::fill(data.begin(), data.end(), static_cast<std::byte>(round));
      transport.Send(kContext, 0, tag, data)->Wait();
    }
  }
  AwaitBeats(group, 1);
}

// What the plan will say of the fast link.
void CheckNearLink(const ProcessGroup& group, int rank, const std::string& link) {
  const std::string& says = group.near_link();
  const std::string expected = link == "network" || (link == "mixed" && rank == 1)
                                   ? "network (no shared memory: switched off)"
                               : link == "apart" ? ""
                               : link == "mixed"
                                   ? "shared memory and network (a rank of this machine has it off)"
                                   : "shared memory";
  THINWIRE_CHECK(says == expected, says);
}

int Play(const std::string& scenario, milliseconds deadline, const std::string& link) {
  const std::map<std::string, std::function<void(ProcessGroup&)>> scenarios = {
      {"exchange", PlayExchange},
      {"board", PlayBoard},
      {"killed", PlayKilled},
      {"store_stopped", [](ProcessGroup& group) { PlayStoreHost(group, SIGSTOP); }},
      {"store_killed", [](ProcessGroup& group) { PlayStoreHost(group, SIGKILL); }},
      {"abort", PlayAbort},
      {"drop", PlayDrop},
      {"join", [](ProcessGroup&) {}},
  };
  try {
    const LaunchEnvironment environment = LaunchEnvironment::FromVariables();
    const bool shared = link != "network" && (link != "mixed" || environment.rank != 1);
    ProcessGroup group(environment, deadline, shared, link == "apart" ? 1 : 0);
    if (environment.world > 1) CheckNearLink(group, environment.rank, link);
    scenarios.at(scenario)(group);
    return 0;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  } catch (const PeerError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 3;
  }
}

}  // namespace
}  // namespace thinwire::launch

int main(int argc, char** argv) {
  // Ends with the test that started it, even when that is killed.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc < 3) return 64;
  thinwire::adapter::QuietTorchLog();
  return thinwire::launch::Play(argv[1], std::chrono::milliseconds(std::atol(argv[2])),
                                argc > 3 ? argv[3] : "");
}
