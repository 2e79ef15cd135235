#include "thinwire/io/file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "thinwire/base/error.h"
#include "thinwire/io/fault_file_system.h"
#include "thinwire/io/testing.h"

namespace thinwire::io {
namespace {

using Names = std::vector<std::string>;

TEST(File, ShortTransfersAreContinued) {
  TestDirectory dir;
  FaultFileSystem fs(RealFileSystem(), {.op = FileOp::kList, .max_transfer = 3});
  const std::string content = "eleven byte";
  WriteFileAtomically(fs, dir / "f", content);
  EXPECT_EQ(ReadFile(RealFileSystem(), dir / "f", 100), content);
  EXPECT_EQ(ReadFile(fs, dir / "f", 100), content);
}

TEST(File, InterruptedCallsAreRepeated) {
  TestDirectory dir;
  int64_t operations = 1;
  for (int64_t n = 0; n < operations; ++n) {
    FaultFileSystem fs(RealFileSystem(), {.nth = n, .error = EINTR, .max_transfer = 4});
    WriteFileAtomically(fs, dir / "f", "content");
    operations = fs.seen();
  }
  EXPECT_GT(operations, 6);
  EXPECT_EQ(ReadFile(RealFileSystem(), dir / "f", 100), "content");
}

TEST(File, FailedAtomicWriteKeepsTheOldContentAndNoTemporary) {
  TestDirectory dir;
  WriteFileAtomically(RealFileSystem(), dir / "f", "old");
  for (const FileOp op : {FileOp::kOpen, FileOp::kWrite, FileOp::kSync, FileOp::kRename}) {
    FaultFileSystem fs(RealFileSystem(), {.op = op, .error = EIO});
    EXPECT_CONTAINS(MessageOf<IoError>([&] { WriteFileAtomically(fs, dir / "f", "new"); }),
                    dir / "f");
    EXPECT_EQ(ReadFile(RealFileSystem(), dir / "f", 100), "old");
    EXPECT_EQ(ListDirectory(RealFileSystem(), dir.path()), Names({"f"}));
  }
}

TEST(File, FullDiskNamesFileAndRoom) {
  TestDirectory dir;
  FaultFileSystem fs(RealFileSystem(), {.op = FileOp::kWrite, .error = ENOSPC});
  const std::string message =
      MessageOf<IoError>([&] { WriteFileAtomically(fs, dir / "f", "new"); });
  EXPECT_CONTAINS(message, "f.tmp: cannot write 3 bytes at 0: No space left on device (");
  EXPECT_CONTAINS(message, "bytes free");
}

TEST(File, ReadingPastTheEndSaysWhereItEnds) {
  TestDirectory dir;
  WriteFileAtomically(RealFileSystem(), dir / "f", "12345");
  const File file(RealFileSystem(), dir / "f", OpenMode::kRead);
  std::vector<std::byte> to(4);
  EXPECT_CONTAINS(MessageOf<IoError>([&] { file.ReadAt(3, to); }),
                  "wanted 4 bytes at 3, but the file ends at 5");
}

TEST(File, MissingLargeAndWrongKindsAreErrors) {
  TestDirectory dir;
  FileSystem& fs = RealFileSystem();
  EXPECT_CONTAINS(MessageOf<IoError>([&] { ReadFile(fs, dir / "none", 9); }), "No such file");
  EXPECT_CONTAINS(MessageOf<IoError>([&] { ReadFile(fs, dir.path(), 9); }), "directory");
  EXPECT_CONTAINS(MessageOf<IoError>([&] { ReadFile(fs, "/dev/zero", 9); }), "/dev/zero");
  WriteFileAtomically(fs, dir / "f", "12345");
  EXPECT_CONTAINS(MessageOf<IoError>([&] { ReadFile(fs, dir / "f", 4); }),
                  "at most 4 bytes expected, found 5");
  EXPECT_CONTAINS(MessageOf<IoError>([&] { MakeDirectories(fs, dir / "f"); }), "exists");
  EXPECT_CONTAINS(MessageOf<IoError>([&] { MakeDirectories(fs, dir / "f/g"); }), "Not a directory");
}

TEST(File, TreesAreMadeListedAndRemovedWithoutFollowingLinks) {
  TestDirectory dir;
  FileSystem& fs = RealFileSystem();
  MakeDirectories(fs, dir / "a/b/c");
  MakeDirectories(fs, dir / "a/b/c");
  WriteFileAtomically(fs, dir / "a/f", "x");
  WriteFileAtomically(fs, dir / "kept", "x");
  std::filesystem::create_symlink(dir / "kept", dir / "a/b/link");
  EXPECT_EQ(ListDirectory(fs, dir / "a"), Names({"b", "f"}));
  RemoveTree(fs, dir / "a");
  RemoveTree(fs, dir / "a");
  EXPECT_EQ(ListDirectory(fs, dir.path()), Names({"kept"}));
  EXPECT_TRUE(ListDirectory(fs, dir / "a").empty());
}

TEST(File, FreeSpaceIsChecked) {
  TestDirectory dir;
  RequireFreeBytes(RealFileSystem(), dir.path(), 1);
  EXPECT_CONTAINS(
      MessageOf<IoError>([&] { RequireFreeBytes(RealFileSystem(), dir.path(), INT64_MAX); }),
      "9223372036854775807 bytes needed");
}

}  // namespace
}  // namespace thinwire::io
