#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "thinwire/io/file.h"

namespace thinwire::io {
namespace {

template <typename T>
T OrErrno(T result) {
  return result < 0 ? static_cast<T>(-errno) : result;
}

// Linux moves at most 0x7ffff000 bytes a call.
constexpr size_t kMaxTransfer = size_t{1} << 30;

class Real final : public FileSystem {
 public:
  int Open(const std::string& path, OpenMode mode) override {
    switch (mode) {
      case OpenMode::kRead:
        return OrErrno(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      case OpenMode::kCreate:
        return OrErrno(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
      case OpenMode::kDirectory:
        return OrErrno(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    return -EINVAL;
  }
  int Close(int file) override { return OrErrno(::close(file)); }
  int64_t Read(int file, int64_t offset, std::span<std::byte> to) override {
    return OrErrno<int64_t>(::pread(file, to.data(), std::min(to.size(), kMaxTransfer), offset));
  }
  int64_t Write(int file, int64_t offset, std::span<const std::byte> from) override {
    return OrErrno<int64_t>(
        ::pwrite(file, from.data(), std::min(from.size(), kMaxTransfer), offset));
  }
  int Sync(int file) override { return OrErrno(::fsync(file)); }
  int64_t Size(int file) override {
    struct stat status {};
    if (::fstat(file, &status) < 0) return -errno;
    // Only these have a size; reading a directory or a device by its size makes no sense.
    if (S_ISDIR(status.st_mode)) return -EISDIR;
    return S_ISREG(status.st_mode) ? status.st_size : -EINVAL;
  }
  int Rename(const std::string& from, const std::string& to) override {
    return OrErrno(::rename(from.c_str(), to.c_str()));
  }
  int Remove(const std::string& path) override { return OrErrno(std::remove(path.c_str())); }
  int MakeDirectory(const std::string& path) override {
    return OrErrno(::mkdir(path.c_str(), 0777));
  }
  int List(const std::string& path, std::vector<std::string>& names) override {
    DIR* directory = ::opendir(path.c_str());
    if (directory == nullptr) return -errno;
    errno = 0;
    while (const dirent* entry = ::readdir(directory)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    const int error = errno;
    ::closedir(directory);
    return -error;
  }
  int64_t FreeBytes(const std::string& path) override {
    struct statvfs status {};
    if (::statvfs(path.c_str(), &status) < 0) return -errno;
    int64_t bytes = 0;
    if (__builtin_mul_overflow(status.f_bavail, status.f_frsize, &bytes)) return INT64_MAX;
    return bytes;
  }
};

}  // namespace

FileSystem& RealFileSystem() {
  static Real real;  // NOLINT(mutable-global): it has no state
  return real;
}

}  // namespace thinwire::io
