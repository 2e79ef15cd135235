// A file read through memory. Its pages come from the disk when they are first touched and count as
// this process's memory until they are dropped; they are clean, so the system may take them back at
// any time.
//
// The size is looked at once, when the file is opened. Should somebody shorten the file after that,
// touching what is gone raises SIGBUS, which nothing here catches: replace a file that is in use by
// renaming another one over it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace thinwire::io {

class MappedFile {
 public:
  // Throws IoError naming the file when it cannot be opened or mapped, UsageError when it is no
  // regular file (a directory, a pipe).
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  // All of it; aligned to a page.
  std::span<const std::byte> bytes() const { return bytes_; }

  // Takes every page that holds one of these bytes out of this process's memory. Content stays what
  // it was: a later touch reads it again, mostly from the system's cache. A hint that may be
  // ignored; safe while other threads read.
  void Drop(int64_t offset, int64_t bytes) const;

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace thinwire::io
