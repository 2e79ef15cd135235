#include "thinwire/io/file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::io {
namespace {

[[noreturn]] void Fail(FileSystem& fs, const std::string& path, std::string_view wanted,
                       int64_t error) {
  const int code = static_cast<int>(-error);
  std::string message = StrCat(path, ": ", wanted, ": ", std::strerror(code));
  if (code == ENOSPC || code == EDQUOT) {
    const size_t slash = path.rfind('/');
    const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const int64_t room = fs.FreeBytes(parent);
    if (room >= 0) message += StrCat(" (", room, " bytes free)");
    message += "; make room or choose another directory";
  }
  throw IoError(message);
}

template <typename Call>
auto Retry(const Call& call) {
  auto result = call();
  while (result == -EINTR) result = call();
  return result;
}

}  // namespace

File::File(FileSystem& fs, std::string path, OpenMode mode) : fs_(fs), path_(std::move(path)) {
  file_ = Retry([&] { return fs_.Open(path_, mode); });
  if (file_ < 0)
    Fail(fs_, path_, mode == OpenMode::kCreate ? "cannot create" : "cannot open", file_);
}

File::~File() {
  if (file_ >= 0) fs_.Close(file_);
}

int64_t File::Size() const {
  const int64_t size = fs_.Size(file_);
  if (size < 0) Fail(fs_, path_, "cannot tell its size", size);
  return size;
}

void File::ReadAt(int64_t offset, std::span<std::byte> to) const {
  THINWIRE_CHECK(offset >= 0 && to.size() <= static_cast<size_t>(INT64_MAX - offset), path_);
  size_t done = 0;
  while (done < to.size()) {
    const int64_t at = offset + static_cast<int64_t>(done);
    const int64_t n = Retry([&] { return fs_.Read(file_, at, to.subspan(done)); });
    if (n < 0) Fail(fs_, path_, StrCat("cannot read ", to.size(), " bytes at ", offset), n);
    if (n == 0) {
      throw IoError(StrCat(path_, ": wanted ", to.size(), " bytes at ", offset,
                           ", but the file ends at ", at));
    }
    done += static_cast<size_t>(n);
  }
}

void File::Append(std::span<const std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const int64_t n = Retry([&] { return fs_.Write(file_, appended_, bytes.subspan(done)); });
    if (n <= 0) {
      Fail(fs_, path_, StrCat("cannot write ", bytes.size() - done, " bytes at ", appended_),
           n == 0 ? -EIO : n);
    }
    done += static_cast<size_t>(n);
    appended_ += n;
  }
}

void File::Sync() {
  // Not repeated after an error: the kernel may have dropped the pages and report success next
  // time.
  const int result = Retry([&] { return fs_.Sync(file_); });
  if (result < 0) Fail(fs_, path_, "cannot bring it to the disk (fsync)", result);
}

void File::Close() {
  const int file = std::exchange(file_, -1);
  const int result = fs_.Close(file);  // after EINTR Linux has closed it all the same
  if (result < 0 && result != -EINTR) Fail(fs_, path_, "cannot close", result);
}

std::string ReadFile(FileSystem& fs, const std::string& path, int64_t max_bytes) {
  const File file(fs, path, OpenMode::kRead);
  const int64_t size = file.Size();
  if (size > max_bytes) {
    throw IoError(StrCat(path, ": at most ", max_bytes, " bytes expected, found ", size));
  }
  std::string content(static_cast<size_t>(size), '\0');
  file.ReadAt(0, std::as_writable_bytes(std::span(content)));
  return content;
}

void WriteFileAtomically(FileSystem& fs, const std::string& path, std::string_view content) {
  const std::string temporary = path + ".tmp";
  try {
    File file(fs, temporary, OpenMode::kCreate);
    file.Append(std::as_bytes(std::span(content)));
    file.Sync();
    file.Close();
    Rename(fs, temporary, path);
  } catch (const IoError&) {
    fs.Remove(temporary);  // best effort, the error to report is the first one
    throw;
  }
  SyncDirectory(fs, ParentOf(path));
}

void SyncDirectory(FileSystem& fs, const std::string& path) {
  const int file = Retry([&] { return fs.Open(path, OpenMode::kDirectory); });
  if (file < 0) Fail(fs, path, "cannot open", file);
  const int result = Retry([&] { return fs.Sync(file); });
  fs.Close(file);
  // EINVAL: a file system whose directories need no fsync, as some network ones.
  if (result < 0 && result != -EINVAL)
    Fail(fs, path, "cannot bring it to the disk (fsync)", result);
}

void Rename(FileSystem& fs, const std::string& from, const std::string& to) {
  const int result = Retry([&] { return fs.Rename(from, to); });
  if (result < 0) Fail(fs, from, StrCat("cannot rename to ", to), result);
}

void MakeDirectories(FileSystem& fs, const std::string& path) {
  int result = Retry([&] { return fs.MakeDirectory(path); });
  if (result == -ENOENT && ParentOf(path) != path) {
    MakeDirectories(fs, ParentOf(path));
    result = Retry([&] { return fs.MakeDirectory(path); });
  }
  if (result == -EEXIST && IsDirectory(fs, path)) return;
  if (result < 0) Fail(fs, path, "cannot make the directory", result);
  SyncDirectory(fs, ParentOf(path));
}

std::vector<std::string> ListDirectory(FileSystem& fs, const std::string& path) {
  std::vector<std::string> names;
  const int result = Retry([&] {
    names.clear();
    return fs.List(path, names);
  });
  if (result == -ENOENT) return {};
  if (result < 0) Fail(fs, path, "cannot list", result);
  std::sort(names.begin(), names.end());
  return names;
}

void RemoveTree(FileSystem& fs, const std::string& path) {
  int result = Retry([&] { return fs.Remove(path); });
  if (result == -ENOTEMPTY || result == -EEXIST) {
    for (const std::string& name : ListDirectory(fs, path)) RemoveTree(fs, path + "/" + name);
    result = Retry([&] { return fs.Remove(path); });
  }
  if (result < 0 && result != -ENOENT) Fail(fs, path, "cannot remove", result);
}

bool IsDirectory(FileSystem& fs, const std::string& path) {
  const int file = Retry([&] { return fs.Open(path, OpenMode::kDirectory); });
  if (file < 0) return false;
  fs.Close(file);
  return true;
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.find_last_not_of('/') == std::string::npos
                           ? std::string::npos
                           : path.rfind('/', path.find_last_not_of('/'));
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

void RequireFreeBytes(FileSystem& fs, const std::string& path, int64_t bytes) {
  const int64_t room = Retry([&] { return fs.FreeBytes(path); });
  if (room < 0) Fail(fs, path, "cannot tell the free space", room);
  if (room < bytes) {
    throw IoError(StrCat(path, ": ", bytes, " bytes needed, ", room,
                         " free; make room or choose another directory"));
  }
}

}  // namespace thinwire::io
