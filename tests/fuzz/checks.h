// What fuzz targets share: claims, and inputs as files.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "thinwire/base/error.h"

namespace thinwire::fuzz {

inline void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// A file without a disk, for readers that want a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes) : file_(::memfd_create("fuzz", 0)) {
    Require(file_ >= 0, "no memory file");
    Require(::write(file_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
            "no memory for a file");
  }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return StrCat("/proc/self/fd/", file_); }

 private:
  const int file_;
};

// Runs `call`. False where it threw a UsageError, which must be of one line and begin with `name`.
template <typename Call>
bool Accepts(const std::string& name, const Call& call) {
  try {
    call();
    return true;
  } catch (const UsageError& error) {
    const std::string message = error.what();
    Require(message.starts_with(name), "a message without the file's name");
    Require(std::ranges::none_of(message, [](char c) { return c == '\n' || c == '\0'; }),
            "a message of several lines");
    return false;
  }
}

}  // namespace thinwire::fuzz
