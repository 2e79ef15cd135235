#include "thinwire/io/atomic_directory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "thinwire/base/crc32c.h"
#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/io/fault_file_system.h"
#include "thinwire/io/testing.h"

namespace thinwire::io {
namespace {

using Json = nlohmann::json;

// What rank 0 of one stores at `step`; `version` tells two saves of one step apart.
std::string DataOf(int64_t step, int version) {
  std::string data;
  for (int64_t i = 0; i <= step % 7; ++i)
    data += StrCat("line ", i, " of ", step, " v", version, "\n");
  return data;
}

FileRecord WriteData(FileSystem& fs, const std::string& directory, const std::string& name,
                     const std::string& data) {
  File file(fs, directory + "/" + name, OpenMode::kCreate);
  const auto bytes = std::as_bytes(std::span(data));
  file.Append(bytes);
  file.Sync();
  file.Close();
  return {name, file.appended(), Crc32c(bytes)};
}

AtomicDirectory::Content ContentOf(FileSystem& fs, int64_t step, int version = 1, int keep = 2) {
  return {.step = step,
          .bytes = 1000,
          .keep = keep,
          .write =
              [&fs, step, version](const std::string& directory) {
                return AtomicDirectory::Share{
                    {WriteData(fs, directory, "data", DataOf(step, version))}, step * 10};
              },
          .manifest =
              [version](const std::vector<Json>& notes) {
                return Json{{"version", version}, {"notes", notes}};
              }};
}

// The version of the newest checkpoint after a check that it is what was saved; 0: none.
std::pair<int64_t, int> Newest(const std::string& root) {
  FileSystem& fs = RealFileSystem();
  const auto complete = AtomicDirectory(fs, root).Look().complete;
  if (complete.empty()) return {0, 0};
  const auto& [step, path] = complete.front();
  const Json manifest = ReadManifest(fs, path);
  const int version = manifest["version"].get<int>();
  EXPECT_EQ(ReadFile(fs, path + "/data", 10'000), DataOf(step, version)) << path;
  EXPECT_EQ(manifest["notes"], Json({step * 10}));
  return {step, version};
}

using Found = std::pair<int64_t, int>;
using Names = std::vector<std::string>;

TEST(AtomicDirectory, KeepsTheLastK) {
  TestDirectory dir;
  FileSystem& fs = RealFileSystem();
  const AtomicDirectory checkpoints(fs, dir / "a/root");
  EXPECT_TRUE(checkpoints.Look().complete.empty());
  for (const int64_t step : {1, 2, 10, 9}) {
    EXPECT_EQ(checkpoints.Save({}, ContentOf(fs, step)), checkpoints.PathOf(step));
  }
  // 9 is not the highest, but it was saved last; 10 is the other one of two.
  EXPECT_EQ(ListDirectory(fs, dir / "a/root"), (Names{"step-10", "step-9"}));
  EXPECT_EQ(Newest(dir / "a/root"), Found(10, 1));
  EXPECT_EQ(ListDirectory(fs, dir / "a/root/step-9"), (Names{"data", "manifest.json"}));
  checkpoints.Save({}, ContentOf(fs, 10, 2, 1));
  EXPECT_EQ(ListDirectory(fs, dir / "a/root"), Names{"step-10"});
  EXPECT_EQ(Newest(dir / "a/root"), Found(10, 2));
}

TEST(AtomicDirectory, IgnoresWhatIsNotComplete) {
  TestDirectory dir;
  FileSystem& fs = RealFileSystem();
  const AtomicDirectory checkpoints(fs, dir.path());
  for (const int64_t step : {1, 2, 3, 4, 5, 6}) checkpoints.Save({}, ContentOf(fs, step, 1, 9));
  std::filesystem::remove(dir / "step-2/manifest.json");
  std::ofstream(dir / "step-3/manifest.json") << "{\"step\":3,";
  std::ofstream(dir / "step-4/data") << "x";
  std::filesystem::remove(dir / "step-5/data");
  std::filesystem::rename(dir / "step-6", dir / "step-7");
  for (const char* name : {"step-08", "step-", "step-x", "step--1", "step-9.tmp", "stepping",
                           "step-99999999999999999999"}) {
    std::filesystem::copy(dir / "step-1", dir / name);
  }
  std::ofstream(dir / "step-11") << "a file";
  EXPECT_EQ(Newest(dir.path()), Found(1, 1));
  const std::vector<std::string> ignored = checkpoints.Look().ignored;
  ASSERT_EQ(ignored.size(), 6u);
  EXPECT_CONTAINS(ignored[0], "step-11: no manifest.json");
  EXPECT_CONTAINS(ignored[1], "step-2: no manifest.json");
  EXPECT_CONTAINS(ignored[2], "step-3/manifest.json: not a JSON object");
  EXPECT_CONTAINS(ignored[3], "step-4/data: 75 bytes expected, found 1");
  EXPECT_CONTAINS(ignored[4], "step-5/data: is missing");
  EXPECT_CONTAINS(ignored[5], "step-7: its manifest is of step 6");
}

TEST(AtomicDirectory, ManifestsAreNotTrusted) {
  TestDirectory dir;
  const auto error_of = [&](const std::string& text) {
    std::ofstream(dir / "manifest.json") << text;
    return MessageOf<UsageError>([&] { ReadManifest(RealFileSystem(), dir.path()); });
  };
  EXPECT_CONTAINS(error_of("[]"), "not a JSON object");
  EXPECT_CONTAINS(error_of(std::string(100'000, '[')), "not a JSON object");
  EXPECT_CONTAINS(error_of("{}"), "\"step\" must be an integer >= 0, found nothing");
  EXPECT_CONTAINS(error_of(R"({"step":-1})"), "found -1");
  EXPECT_CONTAINS(error_of(R"({"step":1e99})"), "found 1e+99");
  EXPECT_CONTAINS(error_of(R"({"step":18446744073709551615})"), "found 18446744073709551615");
  EXPECT_CONTAINS(error_of(R"({"step":1,"files":{}})"), "\"files\" must be a list");
  EXPECT_CONTAINS(error_of(R"({"step":1,"files":[1]})"), "has no name");
  for (const char* name : {"", ".", "..", "../x", "/etc/passwd", "a/b", "a\\u0000"}) {
    EXPECT_CONTAINS(error_of(StrCat(R"({"step":1,"files":[{"name":")", name, R"("}]})")), "plain");
  }
  EXPECT_CONTAINS(error_of(R"({"step":1,"files":[{"name":"a","crc32c":4294967296}]})"), "32 bits");
  EXPECT_CONTAINS(error_of(R"({"step":1,"files":[{"name":"a","crc32c":1}]})"), "\"bytes\"");
}

TEST(AtomicDirectory, FreeSpaceIsCheckedBeforeAnythingIsWritten) {
  TestDirectory dir;
  FileSystem& fs = RealFileSystem();
  const AtomicDirectory checkpoints(fs, dir.path());
  AtomicDirectory::Content content = ContentOf(fs, 1);
  content.bytes = INT64_MAX / 2;
  const std::string message = MessageOf<IoError>([&] { checkpoints.Save({}, content); });
  EXPECT_CONTAINS(message, "4611686018427387903 bytes needed, ");
  EXPECT_TRUE(ListDirectory(fs, dir.path()).empty());
}

// Fails the n-th operation, for every n until a save succeeds. After each failure the newest
// checkpoint is the one of before, or the new one as a whole; and the next save finds no trace.
void FailEverywhere(int64_t step, Fault fault) {
  bool succeeded = false;
  for (fault.nth = 0; !succeeded; ++fault.nth) {
    TestDirectory dir;
    FileSystem& real = RealFileSystem();
    AtomicDirectory(real, dir.path()).Save({}, ContentOf(real, 4));
    FaultFileSystem faulty(real, fault);
    try {
      AtomicDirectory(faulty, dir.path()).Save({}, ContentOf(faulty, step, 2));
      succeeded = !faulty.fired();
      EXPECT_EQ(Newest(dir.path()), Found(step, 2)) << fault.nth;
    } catch (const IoError& error) {
      EXPECT_CONTAINS(error.what(), dir.path());
      const Found newest = Newest(dir.path());
      EXPECT_TRUE(newest == Found(4, 1) || newest == Found(step, 2)) << fault.nth;
      if (!fault.forever && newest == Found(4, 1)) {
        for (const auto& name : ListDirectory(real, dir.path())) {
          EXPECT_EQ(name.find(".tmp"), std::string::npos) << fault.nth;
        }
      }
    }
    AtomicDirectory(real, dir.path()).Save({}, ContentOf(real, step, 3));
    EXPECT_EQ(Newest(dir.path()), Found(step, 3));
    EXPECT_EQ(ListDirectory(real, dir.path()),
              step == 4 ? Names{"step-4"} : (Names{"step-4", StrCat("step-", step)}));
    ASSERT_LT(fault.nth, 1000);
  }
  EXPECT_GT(fault.nth, 25);
}

TEST(AtomicDirectory, AnyOperationMayFailOnce) { FailEverywhere(5, {}); }
TEST(AtomicDirectory, AnyOperationMayBeTheLast) { FailEverywhere(5, {.forever = true}); }
TEST(AtomicDirectory, ReplacingAStepMayFailOnce) { FailEverywhere(4, {}); }
TEST(AtomicDirectory, ReplacingAStepMayEndAnywhere) { FailEverywhere(4, {.forever = true}); }

TEST(AtomicDirectory, LeftoversOfACrashGoWithTheNextSave) {
  TestDirectory dir;
  FileSystem& fs = RealFileSystem();
  MakeDirectories(fs, dir / "step-2.tmp/deeper");
  MakeDirectories(fs, dir / "step-3.tmp");
  MakeDirectories(fs, dir / "step-x.tmp");  // not ours
  std::ofstream(dir / "step-2.tmp/rank-00007.safetensors") << "of a larger world";
  AtomicDirectory(fs, dir.path()).Save({}, ContentOf(fs, 2));
  EXPECT_EQ(ListDirectory(fs, dir.path()), (Names{"step-2", "step-x.tmp"}));
  EXPECT_EQ(ListDirectory(fs, dir / "step-2"), (Names{"data", "manifest.json"}));
}

TEST(AtomicDirectory, FullDiskIsReportedAndTidied) {
  TestDirectory dir;
  FileSystem& real = RealFileSystem();
  AtomicDirectory(real, dir.path()).Save({}, ContentOf(real, 1));
  FaultFileSystem full(real, {.op = FileOp::kWrite, .error = ENOSPC, .forever = true});
  const std::string message =
      MessageOf<IoError>([&] { AtomicDirectory(full, dir.path()).Save({}, ContentOf(full, 2)); });
  EXPECT_CONTAINS(message, "step-2.tmp/data: cannot write");
  EXPECT_CONTAINS(message, "bytes free");
  EXPECT_EQ(ListDirectory(real, dir.path()), Names{"step-1"});
}

// A process that saves in a loop is killed at random moments; a new one goes on in its place.
TEST(AtomicDirectory, SurvivesKillNine) {
  TestDirectory dir;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  const CounterRandom random(3);
  int64_t last = 0;
  for (uint64_t round = 0; std::chrono::steady_clock::now() < end; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      FileSystem& fs = RealFileSystem();
      for (int64_t step = last + 1;; ++step) {
        // Each step twice, so that replacing is interrupted as well.
        for (const int version : {1, 2}) {
          AtomicDirectory(fs, dir.path()).Save({}, ContentOf(fs, step, version));
        }
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(2'000 + random.Bits(round) % 10'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
    const Found newest = Newest(dir.path());
    EXPECT_GE(newest.first, last);
    last = newest.first;
  }
  EXPECT_GT(last, 3);
}

}  // namespace
}  // namespace thinwire::io
