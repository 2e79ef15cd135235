// Ranks as processes for tests: starts a program once per rank with the launcher's variables, and
// collects exit codes and what was printed.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

namespace thinwire {

using TestClock = std::chrono::steady_clock;

// A listening socket on a port of its own.
class BoundPort {
 public:
  BoundPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    listen(fd_, 1);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
  }
  ~BoundPort() { close(fd_); }
  int port() const { return port_; }

 private:
  const int fd_;
  int port_ = 0;
};

inline int FreePort() { return BoundPort().port(); }

struct Outcome {
  int exit_code = -1;  // minus the signal's number when one ended it
  std::string output;  // stdout and stderr together
};

struct Launch {
  std::vector<std::string> command;  // program and arguments, the same for all ranks
  int world = 2;
  int port = FreePort();
  std::vector<int> ranks{};  // that are started; empty: all
  std::vector<std::string> variables{};
  int stopped_rank = -1;                  // is killed once all others have ended
  std::chrono::milliseconds end{40'000};  // then those that still run are killed
};

class RankProcess {
 public:
  RankProcess(const Launch& launch, int rank) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    std::vector<std::string> variables = {"RANK=" + std::to_string(rank),
                                          "WORLD_SIZE=" + std::to_string(launch.world),
                                          "LOCAL_RANK=" + std::to_string(rank),
                                          "LOCAL_WORLD_SIZE=" + std::to_string(launch.world),
                                          "MASTER_ADDR=127.0.0.1",
                                          "MASTER_PORT=" + std::to_string(launch.port),
                                          "OMP_NUM_THREADS=1"};
    variables.insert(variables.end(), launch.variables.begin(), launch.variables.end());
    std::vector<std::string> arguments = launch.command;
    EXPECT_EQ(posix_spawn(&pid_, arguments[0].c_str(), &actions, nullptr,
                          Pointers(arguments).data(), Pointers(variables).data()),
              0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    reader_ = std::thread([this, fd = ends[0]] {
      char buffer[4096];
      for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;) {
        outcome_.output.append(buffer, static_cast<size_t>(n));
      }
      close(fd);
    });
  }

  RankProcess(RankProcess&&) = default;
  ~RankProcess() {
    if (reader_.joinable()) Finish(TestClock::time_point::min());
  }

  void Signal(int signal) const { kill(pid_, signal); }

  // Polls; kills the process at `end`.
  Outcome Finish(TestClock::time_point end) {
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (TestClock::now() > end) {
        kill(pid_, SIGKILL);
        waitpid(pid_, &status, 0);
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    reader_.join();
    outcome_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return std::move(outcome_);
  }

 private:
  static std::vector<char*> Pointers(std::vector<std::string>& strings) {
    std::vector<char*> pointers;
    for (std::string& each : strings) pointers.push_back(each.data());
    pointers.push_back(nullptr);
    return pointers;
  }

  pid_t pid_ = -1;
  Outcome outcome_;
  std::thread reader_;
};

// By index in launch.ranks. `ended`, if given, is when the last rank but the stopped one was gone.
inline std::vector<Outcome> RunLaunch(Launch launch, TestClock::time_point* ended = nullptr) {
  if (launch.ranks.empty()) {
    for (int rank = 0; rank < launch.world; ++rank) launch.ranks.push_back(rank);
  }
  std::vector<RankProcess> processes;
  processes.reserve(launch.ranks.size());  // their readers point to them
  const auto end = TestClock::now() + launch.end;
  for (const int rank : launch.ranks) processes.emplace_back(launch, rank);
  std::vector<Outcome> outcomes(processes.size());
  for (size_t i = 0; i < processes.size(); ++i) {
    if (launch.ranks[i] != launch.stopped_rank) outcomes[i] = processes[i].Finish(end);
  }
  if (ended) *ended = TestClock::now();
  for (size_t i = 0; i < processes.size(); ++i) {
    if (launch.ranks[i] == launch.stopped_rank) {
      outcomes[i] = processes[i].Finish(TestClock::now());
    }
  }
  return outcomes;
}

}  // namespace thinwire
