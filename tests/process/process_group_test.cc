// ProcessGroup between real processes over loopback. Each test runs process_group_rank once per
// rank and looks at exit codes, times and what was printed.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

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

int FreePort() { return BoundPort().port(); }

struct Outcome {
  int exit_code = -1;  // minus the signal's number when one ended it
  std::string output;  // stdout and stderr together
};

struct Launch {
  std::string scenario{};
  int world = 2;
  milliseconds deadline{10'000};
  int port = FreePort();
  std::vector<int> ranks{};  // that are started; empty: all
  std::vector<std::string> variables{};
  int stopped_rank = -1;  // is killed once all others have ended
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
    std::vector<std::string> arguments = {THINWIRE_RANK_PROGRAM, launch.scenario,
                                          std::to_string(launch.deadline.count())};
    EXPECT_EQ(posix_spawn(&pid_, THINWIRE_RANK_PROGRAM, &actions, nullptr,
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

  // Polls; kills the process at `end`.
  Outcome Finish(Clock::time_point end) {
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (Clock::now() > end) {
        kill(pid_, SIGKILL);
        waitpid(pid_, &status, 0);
        break;
      }
      std::this_thread::sleep_for(milliseconds(5));
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

std::vector<Outcome> RunLaunch(Launch launch) {
  if (launch.ranks.empty()) {
    for (int rank = 0; rank < launch.world; ++rank) launch.ranks.push_back(rank);
  }
  std::vector<RankProcess> processes;
  processes.reserve(launch.ranks.size());  // their readers point to them
  for (const int rank : launch.ranks) processes.emplace_back(launch, rank);
  const auto end = Clock::now() + milliseconds(40'000);
  std::vector<Outcome> outcomes(processes.size());
  for (size_t i = 0; i < processes.size(); ++i) {
    if (launch.ranks[i] != launch.stopped_rank) outcomes[i] = processes[i].Finish(end);
  }
  for (size_t i = 0; i < processes.size(); ++i) {
    if (launch.ranks[i] == launch.stopped_rank) outcomes[i] = processes[i].Finish(Clock::now());
  }
  return outcomes;
}

void ExpectAllSucceed(const std::vector<Outcome>& outcomes) {
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_EQ(outcome.output, "");
  }
}

// One line that a user can act on.
void ExpectOneLine(const Outcome& outcome, int exit_code, const std::string& expected) {
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.output;
  EXPECT_EQ(outcome.output.find("error: "), 0u) << outcome.output;
  EXPECT_EQ(outcome.output.find('\n'), outcome.output.size() - 1) << outcome.output;
  EXPECT_NE(outcome.output.find(expected), std::string::npos) << outcome.output;
}

// The milliseconds in a line "NAME after N ms: REASON"; -1 when there is none with `reason` in it.
long long TimeOf(const std::string& output, const std::string& name, const std::string& reason) {
  const size_t line = output.find(name + " after ");
  if (line == std::string::npos) return -1;
  const std::string text = output.substr(line, output.find('\n', line) - line);
  if (text.find(reason) == std::string::npos) return -1;
  return std::stoll(text.substr(name.size() + 7));
}

void ExpectWithin(const std::string& output, const std::string& name, long long bound_ms,
                  const std::string& reason) {
  const long long ms = TimeOf(output, name, reason);
  EXPECT_GE(ms, 0) << name << " ... " << reason << " in:\n" << output;
  EXPECT_LT(ms, bound_ms) << output;
}

void ExpectNoStack(const std::string& output) {
  EXPECT_EQ(output.find("frame #"), std::string::npos) << output;
  EXPECT_EQ(output.find("pair.cc"), std::string::npos) << output;
}

TEST(ProcessGroup, TwoRanksExchange) { ExpectAllSucceed(RunLaunch({"exchange", 2})); }
TEST(ProcessGroup, FourRanksExchange) { ExpectAllSucceed(RunLaunch({"exchange", 4})); }
TEST(ProcessGroup, BoardShowsBeatsAndTheFirstFailure) { ExpectAllSucceed(RunLaunch({"board", 3})); }
TEST(ProcessGroup, DroppedReceiveIsWithdrawn) { ExpectAllSucceed(RunLaunch({"drop", 2})); }

TEST(ProcessGroup, SurvivorsOfAKilledRankGetAnError) {
  for (const int world : {2, 4}) {
    const std::vector<Outcome> outcomes = RunLaunch({"killed", world});
    for (int rank = 0; rank < world - 1; ++rank) {
      const Outcome& outcome = outcomes[static_cast<size_t>(rank)];
      EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
      const std::string reason = "rank " + std::to_string(rank) + " lost contact with rank " +
                                 std::to_string(world - 1) + ": ";
      ExpectWithin(outcome.output, "bulk", 2000, reason);
      ExpectWithin(outcome.output, "control", 2000, reason);
      ExpectWithin(outcome.output, "later send", 500, reason);
      ExpectNoStack(outcome.output);
    }
    EXPECT_EQ(outcomes.back().exit_code, -SIGKILL);
  }
}

TEST(ProcessGroup, StoppedStoreHostIsAnErrorWithinTheDeadline) {
  const std::vector<Outcome> outcomes = RunLaunch(
      {.scenario = "store_stopped", .world = 3, .deadline = milliseconds(4500), .stopped_rank = 0});
  for (size_t rank = 1; rank < 3; ++rank) {
    EXPECT_EQ(outcomes[rank].exit_code, 0) << outcomes[rank].output;
    ExpectWithin(outcomes[rank].output, "board", 4000, "which rank 0 hosts: no answer for 1.5 s");
    ExpectWithin(outcomes[rank].output, "again", 500, "which rank 0 hosts: no answer for 1.5 s");
    ExpectNoStack(outcomes[rank].output);
  }
}

TEST(ProcessGroup, KilledStoreHostIsAnErrorWithinTheDeadline) {
  const std::vector<Outcome> outcomes =
      RunLaunch({.scenario = "store_killed", .world = 3, .deadline = milliseconds(3000)});
  for (size_t rank = 1; rank < 3; ++rank) {
    EXPECT_EQ(outcomes[rank].exit_code, 0) << outcomes[rank].output;
    ExpectWithin(outcomes[rank].output, "board", 2000, "which rank 0 hosts: ");
    ExpectNoStack(outcomes[rank].output);
  }
}

TEST(ProcessGroup, AbortWakesEveryWaiter) {
  const std::vector<Outcome> outcomes = RunLaunch({"abort", 2});
  EXPECT_EQ(outcomes[0].exit_code, 0) << outcomes[0].output;
  for (const char* name : {"first", "second", "later"}) {
    ExpectWithin(outcomes[0].output, name, 1000, ": tired of waiting");
  }
}

TEST(ProcessGroup, BusyPortNamesMasterPort) {
  const BoundPort busy;
  const auto outcomes =
      RunLaunch({.scenario = "join", .world = 2, .port = busy.port(), .ranks = {0}});
  ExpectOneLine(outcomes[0], 2, "MASTER_PORT=" + std::to_string(busy.port()));
}

TEST(ProcessGroup, MissingRanksAreNamed) {
  const auto outcomes =
      RunLaunch({.scenario = "join", .world = 4, .deadline = milliseconds(3000), .ranks = {0, 2}});
  for (const Outcome& outcome : outcomes) ExpectOneLine(outcome, 3, "missing: 1, 3");
}

TEST(ProcessGroup, StoreThatIsNotThereIsNamed) {
  const auto outcomes =
      RunLaunch({.scenario = "join", .world = 2, .deadline = milliseconds(500), .ranks = {1}});
  ExpectOneLine(outcomes[0], 3, "which rank 0 hosts, within 0.5 s");
}

TEST(ProcessGroup, TwoProcessesOfOneRankAreAnError) {
  const auto outcomes = RunLaunch(
      {.scenario = "join", .world = 3, .deadline = milliseconds(3000), .ranks = {0, 1, 1}});
  const bool first = outcomes[1].exit_code == 2;
  ExpectOneLine(outcomes[first ? 1 : 2], 2, "a second process came as RANK=1");
}

TEST(ProcessGroup, UnknownInterfaceListsThoseThatAreThere) {
  const auto outcomes = RunLaunch(
      {.scenario = "join", .world = 2, .ranks = {0}, .variables = {"THINWIRE_INTERFACE=nosuch0"}});
  ExpectOneLine(outcomes[0], 2, "one of: lo");
}

TEST(ProcessGroup, RanksThatDisagreeOnTheWorldAreAnError) {
  Launch launch{.scenario = "join", .world = 2};
  std::vector<RankProcess> processes;
  processes.reserve(2);
  processes.emplace_back(launch, 0);
  launch.world = 3;
  launch.deadline = milliseconds(3000);
  processes.emplace_back(launch, 1);
  const auto end = Clock::now() + milliseconds(20'000);
  ExpectOneLine(processes[0].Finish(end), 2, "rank 1 was started with WORLD_SIZE=3, rank 0 with 2");
  EXPECT_NE(processes[1].Finish(end).exit_code, 0);
}

TEST(ProcessGroup, OneRankNeedsNoNetwork) {
  ExpectAllSucceed(RunLaunch({.scenario = "join", .world = 1, .port = 1}));
}

}  // namespace
