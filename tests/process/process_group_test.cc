// ProcessGroup between real processes over loopback. Each test runs process_group_rank once per
// rank and looks at exit codes, times and what was printed.
#include "tests/process/rank_process.h"

namespace thinwire {
namespace {

using std::chrono::milliseconds;

struct Scenario {
  std::string name{};
  int world = 2;
  milliseconds deadline{10'000};
  int port = FreePort();
  std::vector<int> ranks{};
  std::vector<std::string> variables{};
  int stopped_rank = -1;
  std::string link{};  // see process_group_rank.cc
};

Launch LaunchOf(const Scenario& scenario) {
  return {.command = {THINWIRE_RANK_PROGRAM, scenario.name,
                      std::to_string(scenario.deadline.count()), scenario.link},
          .world = scenario.world,
          .port = scenario.port,
          .ranks = scenario.ranks,
          .variables = scenario.variables,
          .stopped_rank = scenario.stopped_rank};
}

std::vector<Outcome> Play(const Scenario& scenario) { return RunLaunch(LaunchOf(scenario)); }

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

TEST(ProcessGroup, TwoRanksExchange) { ExpectAllSucceed(Play({"exchange", 2})); }
TEST(ProcessGroup, FourRanksExchange) { ExpectAllSucceed(Play({"exchange", 4})); }
TEST(ProcessGroup, RanksExchangeWithAndWithoutSharedMemory) {
  Scenario network{.name = "exchange"}, mixed{.name = "exchange", .world = 3}, apart = network;
  network.link = "network";
  mixed.link = "mixed";
  apart.link = "apart";
  ExpectAllSucceed(Play(network));
  ExpectAllSucceed(Play(mixed));
  ExpectAllSucceed(Play(apart));
}
TEST(ProcessGroup, BoardShowsBeatsAndTheFirstFailure) { ExpectAllSucceed(Play({"board", 3})); }
TEST(ProcessGroup, DroppedReceiveIsWithdrawn) { ExpectAllSucceed(Play({"drop", 2})); }

TEST(ProcessGroup, SurvivorsOfAKilledRankGetAnError) {
  for (const std::string link : {"", "network"}) {
    const int world = link.empty() ? 4 : 2;
    Scenario scenario{.name = "killed", .world = world};
    scenario.link = link;
    const std::vector<Outcome> outcomes = Play(scenario);
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
  const std::vector<Outcome> outcomes = Play(
      {.name = "store_stopped", .world = 3, .deadline = milliseconds(1500), .stopped_rank = 0});
  for (size_t rank = 1; rank < 3; ++rank) {
    EXPECT_EQ(outcomes[rank].exit_code, 0) << outcomes[rank].output;
    ExpectWithin(outcomes[rank].output, "board", 4000, "which rank 0 hosts: no answer for 1.5 s");
    ExpectWithin(outcomes[rank].output, "again", 500, "which rank 0 hosts: no answer for 1.5 s");
    ExpectNoStack(outcomes[rank].output);
  }
}

TEST(ProcessGroup, KilledStoreHostIsAnErrorWithinTheDeadline) {
  const std::vector<Outcome> outcomes =
      Play({.name = "store_killed", .world = 3, .deadline = milliseconds(3000)});
  for (size_t rank = 1; rank < 3; ++rank) {
    EXPECT_EQ(outcomes[rank].exit_code, 0) << outcomes[rank].output;
    ExpectWithin(outcomes[rank].output, "board", 2000, "which rank 0 hosts: ");
    ExpectNoStack(outcomes[rank].output);
  }
}

TEST(ProcessGroup, AbortWakesEveryWaiter) {
  const std::vector<Outcome> outcomes = Play({"abort", 2});
  EXPECT_EQ(outcomes[0].exit_code, 0) << outcomes[0].output;
  for (const char* name : {"first", "second", "later"}) {
    ExpectWithin(outcomes[0].output, name, 1000, ": tired of waiting");
  }
}

TEST(ProcessGroup, BusyPortNamesMasterPort) {
  const BoundPort busy;
  const auto outcomes = Play({.name = "join", .world = 2, .port = busy.port(), .ranks = {0}});
  ExpectOneLine(outcomes[0], 2, "MASTER_PORT=" + std::to_string(busy.port()));
}

TEST(ProcessGroup, MissingRanksAreNamed) {
  const auto outcomes =
      Play({.name = "join", .world = 4, .deadline = milliseconds(3000), .ranks = {0, 2}});
  for (const Outcome& outcome : outcomes) ExpectOneLine(outcome, 3, "missing: 1, 3");
}

TEST(ProcessGroup, StoreThatIsNotThereIsNamed) {
  const auto outcomes =
      Play({.name = "join", .world = 2, .deadline = milliseconds(500), .ranks = {1}});
  ExpectOneLine(outcomes[0], 3, "which rank 0 hosts, within 0.5 s");
}

TEST(ProcessGroup, TwoProcessesOfOneRankAreAnError) {
  const auto outcomes =
      Play({.name = "join", .world = 3, .deadline = milliseconds(3000), .ranks = {0, 1, 1}});
  const bool first = outcomes[1].exit_code == 2;
  ExpectOneLine(outcomes[first ? 1 : 2], 2, "a second process came as RANK=1");
}

TEST(ProcessGroup, UnknownInterfaceListsThoseThatAreThere) {
  const auto outcomes =
      Play({.name = "join", .world = 2, .ranks = {0}, .variables = {"THINWIRE_INTERFACE=nosuch0"}});
  ExpectOneLine(outcomes[0], 2, "one of: lo");
}

TEST(ProcessGroup, RanksThatDisagreeOnTheWorldAreAnError) {
  Scenario scenario{.name = "join", .world = 2};
  std::vector<RankProcess> processes;
  processes.reserve(2);
  processes.emplace_back(LaunchOf(scenario), 0);
  scenario.world = 3;
  scenario.deadline = milliseconds(3000);
  processes.emplace_back(LaunchOf(scenario), 1);
  const auto end = TestClock::now() + milliseconds(20'000);
  ExpectOneLine(processes[0].Finish(end), 2, "rank 1 was started with WORLD_SIZE=3, rank 0 with 2");
  EXPECT_NE(processes[1].Finish(end).exit_code, 0);
}

TEST(ProcessGroup, OneRankNeedsNoNetwork) {
  ExpectAllSucceed(Play({.name = "join", .world = 1, .port = 1}));
}

}  // namespace
}  // namespace thinwire
