// Files through an interface that tests can make fail. `FileSystem` is the system calls as they
// are; `File` and the functions below it add what callers want: whole transfers (short ones
// continue, EINTR repeats), checked offsets and errors that name the file.
//
// Everything here but FileSystem throws IoError: the file, what was wanted, what was found, and for
// a full disk the room that is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire::io {

enum class OpenMode : uint8_t {
  kRead,       // an existing file
  kCreate,     // a new or emptied file, for writing
  kDirectory,  // a directory, to Sync its entries
};

// Each call returns its result (>= 0) or -errno. Safe to use from several threads.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual int Open(const std::string& path, OpenMode mode) = 0;  // a descriptor
  virtual int Close(int file) = 0;
  virtual int64_t Read(int file, int64_t offset,
                       std::span<std::byte> to) = 0;  // bytes; may be short
  virtual int64_t Write(int file, int64_t offset, std::span<const std::byte> from) = 0;
  virtual int Sync(int file) = 0;
  virtual int64_t Size(int file) = 0;
  virtual int Rename(const std::string& from, const std::string& to) = 0;
  virtual int Remove(const std::string& path) = 0;  // a file, a link or an empty directory
  virtual int MakeDirectory(const std::string& path) = 0;
  virtual int List(const std::string& path, std::vector<std::string>& names) = 0;
  virtual int64_t FreeBytes(const std::string& path) = 0;  // that this user may still write
};

// The operating system's. Without state.
FileSystem& RealFileSystem();

// One open file.
class File {
 public:
  File(FileSystem& fs, std::string path, OpenMode mode);
  ~File();  // closes without looking at the result: call Close() after writing
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  int64_t Size() const;
  // Exactly to.size() bytes from `offset`.
  void ReadAt(int64_t offset, std::span<std::byte> to) const;
  // Behind what was appended before.
  void Append(std::span<const std::byte> bytes);
  int64_t appended() const { return appended_; }
  // Returns when the content has reached the disk.
  void Sync();
  void Close();

 private:
  FileSystem& fs_;
  std::string path_;
  int file_ = -1;
  int64_t appended_ = 0;
};

// The whole file. Files longer than `max_bytes` are refused before any memory is taken.
std::string ReadFile(FileSystem& fs, const std::string& path, int64_t max_bytes);

// The file holds either what it held before or all of `content`, whatever happens: written and
// synced as `path`.tmp, renamed, directory synced.
void WriteFileAtomically(FileSystem& fs, const std::string& path, std::string_view content);

void SyncDirectory(FileSystem& fs, const std::string& path);
void Rename(FileSystem& fs, const std::string& from, const std::string& to);
// With its parents, durably; what exists already is fine.
void MakeDirectories(FileSystem& fs, const std::string& path);
// Sorted, without "." and "..". A directory that does not exist has no entries.
std::vector<std::string> ListDirectory(FileSystem& fs, const std::string& path);
// The file or directory with all below it; links are removed, not followed. Absent is fine.
void RemoveTree(FileSystem& fs, const std::string& path);
bool IsDirectory(FileSystem& fs, const std::string& path);
// The directory that a path lies in, "." for a mere name.
std::string ParentOf(const std::string& path);
// Throws unless `bytes` more fit where `path` lies.
void RequireFreeBytes(FileSystem& fs, const std::string& path, int64_t bytes);

}  // namespace thinwire::io
