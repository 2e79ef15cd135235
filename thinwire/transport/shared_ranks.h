// Ranks that share memory for tests and benchmarks: as threads, and as processes.
#pragma once

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/transport/shared_transport.h"

namespace thinwire::transport {

// Every rank is met, or InternalError.
inline std::unique_ptr<SharedTransport> JoinShared(const SharedDoor& door,
                                                   SharedDoor::Setup setup) {
  const auto size = static_cast<int>(setup.names.size());
  const int me = setup.me;
  MeetingResult met = door.Meet(setup);
  THINWIRE_CHECK(met.failure.empty(), met.failure);
  std::vector<int> ranks(setup.names.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return std::make_unique<SharedTransport>(size, std::move(ranks), me, std::move(met.own),
                                           std::move(met.peers));
}

// All ranks in this process, by rank.
inline std::vector<std::unique_ptr<SharedTransport>> SharedFabric(int size) {
  const std::vector<SharedDoor> doors(static_cast<size_t>(size));
  std::vector<std::string> names;
  for (const SharedDoor& door : doors) names.push_back(door.name());
  std::vector<std::unique_ptr<SharedTransport>> fabric(doors.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto i = static_cast<size_t>(rank);
      fabric[i] = JoinShared(doors[i], {.names = names, .me = rank});
    });
  }
  for (std::thread& thread : threads) thread.join();
  return fabric;
}

// Calls body(transport) in a process of its own per rank, which ends with it or with this one. The
// exit codes by rank: 0, 1 after an exception (printed), or minus a signal's number. Call it
// before the first thread is started.
inline std::vector<int> RunSharedProcesses(int size,
                                           const std::function<void(SharedTransport&)>& body) {
  struct Board {
    std::atomic<int> here{0};
    char names[16][64] = {};
  };
  THINWIRE_CHECK(size <= 16, size);
  void* const memory =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  THINWIRE_CHECK(memory != MAP_FAILED);
  auto* const board = new (memory) Board;
  const auto play = [&](int rank) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const SharedDoor door;
    door.name().copy(board->names[rank], sizeof(board->names[rank]) - 1);
    ++board->here;
    while (board->here < size) usleep(1000);
    SharedDoor::Setup setup;
    setup.me = rank;
    for (int other = 0; other < size; ++other) setup.names.emplace_back(board->names[other]);
    body(*JoinShared(door, setup));
  };
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    int code = 0;
    try {
      play(rank);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      code = 1;
    }
    std::fflush(nullptr);
    _exit(code);
  }
  std::vector<int> codes;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  munmap(memory, sizeof(Board));
  return codes;
}

}  // namespace thinwire::transport
