// A file system whose n-th operation fails, for tests of what must survive a bad disk.
#pragma once

#include <atomic>
#include <cerrno>

#include "thinwire/io/file.h"

namespace thinwire::io {

enum class FileOp : uint8_t {
  kAny,
  kOpen,
  kClose,
  kRead,
  kWrite,
  kSync,
  kSize,
  kRename,
  kRemove,
  kMakeDirectory,
  kList,
  kFreeBytes,
};

struct Fault {
  FileOp op = FileOp::kAny;
  int64_t nth = 0;  // operations of this kind that succeed before the first failure
  int error = EIO;
  bool forever = false;  // all later operations of this kind fail too: with kAny, a crash
  int64_t max_transfer = INT64_MAX;  // bytes that one read or write moves at most
};

// Passes everything on to `base` (which outlives it) but for the fault. An operation that fails
// has no effect, but a failing Close closes. Safe to use from several threads.
class FaultFileSystem final : public FileSystem {
 public:
  FaultFileSystem(FileSystem& base, Fault fault) : base_(base), fault_(fault) {}

  // Operations of the fault's kind so far, failed ones included.
  int64_t seen() const { return seen_.load(); }
  bool fired() const { return seen() > fault_.nth; }

  int Open(const std::string& path, OpenMode mode) override;
  int Close(int file) override;
  int64_t Read(int file, int64_t offset, std::span<std::byte> to) override;
  int64_t Write(int file, int64_t offset, std::span<const std::byte> from) override;
  int Sync(int file) override;
  int64_t Size(int file) override;
  int Rename(const std::string& from, const std::string& to) override;
  int Remove(const std::string& path) override;
  int MakeDirectory(const std::string& path) override;
  int List(const std::string& path, std::vector<std::string>& names) override;
  int64_t FreeBytes(const std::string& path) override;

 private:
  bool Fails(FileOp op);

  FileSystem& base_;
  const Fault fault_;
  std::atomic<int64_t> seen_{0};
};

}  // namespace thinwire::io
