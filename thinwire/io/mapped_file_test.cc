#include "thinwire/io/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "thinwire/base/error.h"
#include "thinwire/base/process_memory.h"
#include "thinwire/io/testing.h"

namespace thinwire::io {
namespace {

TEST(MappedFile, HoldsTheFile) {
  TestDirectory dir;
  std::ofstream(dir / "x") << "hello";
  std::ofstream(dir / "empty");
  const MappedFile file(dir / "x");
  EXPECT_EQ(file.path(), dir / "x");
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  EXPECT_EQ(text, "hello");
  file.Drop(1, 4);
  EXPECT_EQ(text, "hello");
  file.Drop(5, 0);
  EXPECT_TRUE(MappedFile(dir / "empty").bytes().empty());
  EXPECT_THROW(file.Drop(4, 2), InternalError);
  EXPECT_THROW(file.Drop(-1, 2), InternalError);
  EXPECT_THROW(file.Drop(1, INT64_MAX), InternalError);
}

TEST(MappedFile, DroppedPagesLeaveTheProcess) {
  constexpr int64_t kBytes = 16 << 20;
  TestDirectory dir;
  std::ofstream(dir / "x", std::ios::binary) << std::string(kBytes, 'x');
  const MappedFile file(dir / "x");
  const auto touch = [&] {
    int64_t count = 0;
    for (const std::byte byte : file.bytes()) count += byte == std::byte{'x'};
    return count;
  };
  const int64_t before = ResidentBytes();
  EXPECT_EQ(touch(), kBytes);
  EXPECT_GT(ResidentBytes() - before, kBytes / 8 * 7);
  file.Drop(1, kBytes - 2);
  EXPECT_LT(ResidentBytes() - before, kBytes / 8);
  EXPECT_EQ(touch(), kBytes);
}

TEST(MappedFile, WhatCannotBeMapped) {
  TestDirectory dir;
  EXPECT_CONTAINS(MessageOf<IoError>([&] { MappedFile(dir / "none"); }),
                  "/none: cannot open: No such file");
  EXPECT_CONTAINS(MessageOf<UsageError>([&] { MappedFile(dir.path()); }), "found a directory");
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0666), 0);
  EXPECT_CONTAINS(MessageOf<UsageError>([&] { MappedFile(dir / "pipe"); }), "/pipe: a file");
  EXPECT_CONTAINS(MessageOf<UsageError>([&] { MappedFile("/dev/null"); }), "device");
}

}  // namespace
}  // namespace thinwire::io
