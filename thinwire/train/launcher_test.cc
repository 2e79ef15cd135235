#include "thinwire/train/launcher.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "thinwire/base/error.h"

namespace thinwire::train {
namespace {

using std::chrono::milliseconds;

int Shell(int ranks, const std::string& script, milliseconds grace = milliseconds(300)) {
  return Launch(
      {.ranks = ranks, .arguments = {"-c", script}, .program = "/bin/sh", .grace = grace});
}

TEST(LauncherTest, RanksGetTheirVariables) {
  EXPECT_EQ(Shell(3,
                  "test $WORLD_SIZE = 3 && test $LOCAL_WORLD_SIZE = 3 && test $RANK = "
                  "$LOCAL_RANK && test $MASTER_ADDR = 127.0.0.1 && test $MASTER_PORT -gt 0 && "
                  "test $OMP_NUM_THREADS -ge 1"),
            0);
}

TEST(LauncherTest, TheFirstFailureIsTheExitCode) {
  EXPECT_EQ(Shell(3, "if test $RANK = 1; then exit 7; fi; sleep 0.1; exit 3"), 7);
}

TEST(LauncherTest, OthersAreEndedAfterTheGracePeriod) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(Shell(2, "if test $RANK = 1; then kill -9 $$; fi; exec sleep 60"), 128 + SIGKILL);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(LauncherTest, MessagesOfManyRanksAreShownOnce) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  EXPECT_EQ(Shell(3, "echo out $RANK; echo thinwire: rank $RANK: bad data >&2; exit 2"), 2);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "out 0\n");
  const std::string errors = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(errors, '\n'), 1) << errors;
  EXPECT_NE(errors.find("bad data"), std::string::npos);
}

TEST(LauncherTest, SignalsAreHandedOn) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(Shell(2,
                "trap 'exit 0' TERM; trap 'exit 5' INT; touch " + testing::TempDir() +
                    "/launcher_ready_$RANK; while :; do sleep 0.05; done",
                milliseconds(5000)));
  }
  const auto ready = [](const char* rank) {
    return std::filesystem::exists(testing::TempDir() + "/launcher_ready_" + rank);
  };
  while (!ready("0") || !ready("1")) std::this_thread::sleep_for(milliseconds(10));
  kill(child, SIGTERM);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  std::filesystem::remove(testing::TempDir() + "/launcher_ready_0");
  std::filesystem::remove(testing::TempDir() + "/launcher_ready_1");
}

TEST(LauncherTest, RanksDieWithTheLauncher) {
  const std::string pid_file = testing::TempDir() + "/launcher_pid";
  const pid_t child = fork();
  if (child == 0) _exit(Shell(1, "echo $$ > " + pid_file + "; exec sleep 60"));
  pid_t rank = 0;
  while (!(std::ifstream(pid_file) >> rank)) std::this_thread::sleep_for(milliseconds(10));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  // Gone, or a zombie that waits for init.
  bool gone = false;
  for (int i = 0; i < 200 && !gone; ++i) {
    std::ifstream stat("/proc/" + std::to_string(rank) + "/stat");
    std::string pid, name, state;
    gone = !(stat >> pid >> name >> state) || state == "Z";
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(gone);
  std::filesystem::remove(pid_file);
}

TEST(LauncherTest, NonsenseIsRefused) {
  EXPECT_THROW(Shell(0, "true"), UsageError);
  setenv("RANK", "0", 1);
  EXPECT_THROW(Shell(2, "true"), UsageError);
  unsetenv("RANK");
}

}  // namespace
}  // namespace thinwire::train
