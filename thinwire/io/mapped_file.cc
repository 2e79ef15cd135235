#include "thinwire/io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::io {
namespace {

// Closed when the mapping stands: it does not need the descriptor.
class Descriptor {
 public:
  explicit Descriptor(int file) : file_(file) {}
  ~Descriptor() {
    if (file_ >= 0) ::close(file_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return file_; }

 private:
  int file_;
};

[[noreturn]] void Fail(const std::string& path, std::string_view wanted) {
  throw IoError(StrCat(path, ": ", wanted, ": ", std::strerror(errno)));
}

std::span<const std::byte> Map(const std::string& path) {
  // Not blocking: opening a pipe would wait for a writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) Fail(path, "cannot open");
  struct stat status {};
  if (::fstat(file.get(), &status) < 0) Fail(path, "cannot tell its size");
  if (!S_ISREG(status.st_mode)) {
    throw UsageError(StrCat(path, ": a file expected, found ",
                            S_ISDIR(status.st_mode) ? "a directory" : "a pipe or device"));
  }
  if (status.st_size == 0) return {};
  const size_t size = static_cast<size_t>(status.st_size);
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) Fail(path, StrCat("cannot map ", size, " bytes into memory"));
  return {static_cast<const std::byte*>(address), size};
}

}  // namespace

MappedFile::MappedFile(std::string path) : path_(std::move(path)), bytes_(Map(path_)) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::Drop(int64_t offset, int64_t bytes) const {
  THINWIRE_CHECK(offset >= 0 && bytes >= 0 && static_cast<size_t>(offset) <= bytes_.size() &&
                     static_cast<size_t>(bytes) <= bytes_.size() - static_cast<size_t>(offset),
                 path_, ": ", bytes, " bytes at ", offset, " of ", bytes_.size());
  if (bytes == 0) return;
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = static_cast<size_t>(offset) / page * page;
  const size_t end = static_cast<size_t>(offset) + static_cast<size_t>(bytes);
  ::madvise(const_cast<std::byte*>(bytes_.data()) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace thinwire::io
