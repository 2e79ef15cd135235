#include "thinwire/base/memory_plan.h"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace thinwire {

PlannedMemory::PlannedMemory(int64_t bytes) {
  if (bytes <= 0) return;
  const auto size = static_cast<size_t>(bytes);
  void* const memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // A hint: fewer faults when it is first written, fewer entries of the page table when read.
  madvise(memory, size, MADV_HUGEPAGE);
  bytes_ = {static_cast<std::byte*>(memory), size};
}

PlannedMemory::~PlannedMemory() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

PlannedMemory::PlannedMemory(PlannedMemory&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})) {}

PlannedMemory& PlannedMemory::operator=(PlannedMemory&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

int64_t MemoryPlan::Reserve(std::string_view what, int64_t bytes) {
  if (bytes < 0) throw UsageError(StrCat(what, ": ", bytes, " bytes"));
  const int64_t at = bytes_;
  bytes_ = CheckedAdd(bytes_, CheckedAdd(bytes, kAlignment, what), what);
  bytes_ -= bytes_ % kAlignment;
  if (parts_.empty() || parts_.back().what != what) parts_.push_back({std::string(what), 0});
  parts_.back().bytes += bytes_ - at;
  return at;
}

PlannedMemory MemoryPlan::Take() {
  PlannedMemory memory(bytes_);
  for (const auto& bind : binds_) bind(memory.bytes().data());
  binds_.clear();
  return memory;
}

}  // namespace thinwire
