// thinwire-train without a launcher of its own: four processes, one of which is killed or stopped
// from outside. Rank 0 hosts the store here, which goes when it goes.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/process/rank_process.h"

namespace thinwire {
namespace {

using std::chrono::milliseconds;
namespace fs = std::filesystem;

constexpr int kWorld = 4;
constexpr milliseconds kDeadline{3000};

class TrainerDeath : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "thinwire-death-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    std::ofstream(root_ / "config.json")
        << R"({"model": {"hidden": 32, "layers": 2, "heads": 4, "kv_heads": 2},
               "data": {"files": [")"
        << THINWIRE_SOURCE_DIR << R"(/thinwire/train"],
                        "sequence_length": 32},
               "training": {"steps": 3000, "evaluate_every": 0},
               "parallel": {"hosts": 2, "ranks_per_host": 2, "deadline_s": 3}})";
  }
  void TearDown() override { fs::remove_all(root_); }

  // Every rank that survives the signal names the victim on its one line, and ends in `bound`.
  void ExpectNamed(int victim, int signal, milliseconds bound) {
    const Launch launch{.command = {THINWIRE_TRAIN_PROGRAM, "train", root_ / "config.json", "--set",
                                    "output.directory=" + (root_ / "out").string()},
                        .world = kWorld};
    std::vector<RankProcess> ranks;
    ranks.reserve(kWorld);
    for (int rank = 0; rank < kWorld; ++rank) ranks.emplace_back(launch, rank);
    AwaitSteps(3);
    const auto begin = TestClock::now();
    ranks[static_cast<size_t>(victim)].Signal(signal);
    const std::string name = "rank " + std::to_string(victim);
    for (int rank = 0; rank < kWorld; ++rank) {
      if (rank == victim) continue;
      const Outcome outcome =
          ranks[static_cast<size_t>(rank)].Finish(begin + 4 * kDeadline + milliseconds(10'000));
      const size_t line = outcome.output.find("thinwire: rank ");
      ASSERT_NE(line, std::string::npos) << outcome.output;
      const std::string error = outcome.output.substr(line);
      SCOPED_TRACE("rank " + std::to_string(rank) + ": " + error);
      EXPECT_EQ(outcome.exit_code, 1);
      EXPECT_EQ(error.find('\n'), error.size() - 1);
      const std::string signs[] = {"lost contact with " + name + ": ", "which " + name + " hosts: ",
                                   name + " has shown no sign of life for 3 s"};
      EXPECT_TRUE(std::ranges::any_of(
          signs, [&](const std::string& sign) { return error.find(sign) != std::string::npos; }));
    }
    EXPECT_LT(TestClock::now() - begin, bound);
  }

 private:
  void AwaitSteps(int64_t steps) const {
    const auto end = TestClock::now() + milliseconds(30'000);
    int64_t lines = 0;
    while (lines < steps && TestClock::now() < end) {
      std::this_thread::sleep_for(milliseconds(20));
      std::ifstream metrics(root_ / "out" / "metrics.jsonl");
      lines = std::count(std::istreambuf_iterator<char>(metrics), {}, '\n');
    }
    EXPECT_GE(lines, steps) << "the run did not begin";
  }

  fs::path root_;
};

TEST_F(TrainerDeath, KilledRankIsNamedByAll) { ExpectNamed(2, SIGKILL, milliseconds(5000)); }
TEST_F(TrainerDeath, KilledStoreHostIsNamedByAll) { ExpectNamed(0, SIGKILL, milliseconds(5000)); }
TEST_F(TrainerDeath, StoppedRankIsNamedByAll) {
  ExpectNamed(1, SIGSTOP, kDeadline * 13 / 10 + milliseconds(1500));
}

}  // namespace
}  // namespace thinwire
