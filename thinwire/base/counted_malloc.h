// For tests: counts the allocations of the whole program. It replaces malloc, so one source file of
// an executable includes it.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define THINWIRE_COUNTS_ALLOCATIONS 0  // sanitizers bring an allocator of their own
#else
#define THINWIRE_COUNTS_ALLOCATIONS 1
#endif

namespace {

struct AllocationCounter {
  std::atomic<bool> on{false};
  std::atomic<int64_t> count{0};

  void Note() {
    if (on.load(std::memory_order_relaxed)) ++count;
  }
};

// Ready before any constructor runs, as malloc is called before.
AllocationCounter& Counter() {
  static constinit AllocationCounter counter;  // NOLINT(mutable-global): malloc takes none
  return counter;
}

}  // namespace

#if THINWIRE_COUNTS_ALLOCATIONS

// glibc's own names of what is replaced here.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t size) {
  Counter().Note();
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  Counter().Note();
  return __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  Counter().Note();
  return __libc_realloc(old, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  Counter().Note();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** result, size_t alignment, size_t size) {
  Counter().Note();
  *result = __libc_memalign(alignment, size);
  return *result == nullptr ? ENOMEM : 0;
}
}

#endif
