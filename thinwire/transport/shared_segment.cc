#include "thinwire/transport/shared_segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::transport {
namespace {

constexpr uint64_t kMagic = 0x7468696e77697231;  // "thinwir1": the last digit is the version

constexpr size_t kPage = 4096;
constexpr size_t RoundUp(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Looks at the bell before a sleep, which costs several times as long with the wake-up: about 30
// us, in which the peer fills or empties half a ring. The core is offered to others in between, so
// that ranks that share it do not wait for one that waits.
constexpr int kLooks = 1500;
constexpr int kLooksPerOffer = 50;

void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

size_t SlotsAt() { return RoundUp(sizeof(SharedHeader)); }
size_t StagesAt(int members) {
  return RoundUp(SlotsAt() + static_cast<size_t>(members) * kSharedSlots * sizeof(SharedSlot));
}
size_t SegmentBytes(int members) {
  return StagesAt(members) + static_cast<size_t>(members) * kSharedSlots * kStageBytes;
}

[[noreturn]] void Refused(const char* what) {
  throw IoError(StrCat(what, ": ", std::strerror(errno)));
}

}  // namespace

SharedSegment::SharedSegment(int members, uint64_t nonce)
    : fd_(memfd_create("thinwire", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (fd_ < 0) Refused("memfd_create");
  try {
    if (ftruncate(fd_, static_cast<off_t>(SegmentBytes(members))) != 0) Refused("ftruncate");
    if (fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) Refused("F_ADD_SEALS");
    Map(members);
  } catch (...) {
    close(fd_);
    throw;
  }
  // A new file is zero, and so are the atomics in it.
  header().magic = kMagic;
  header().nonce = nonce;
}

SharedSegment::SharedSegment(int fd, int members, uint64_t nonce) : fd_(fd) {
  try {
    struct stat file {};
    if (fstat(fd_, &file) != 0) Refused("fstat");
    const int seals = fcntl(fd_, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
        file.st_size != static_cast<off_t>(SegmentBytes(members))) {
      throw IoError("the peer's memory is not of this version of thinwire");
    }
    Map(members);
    if (header().magic != kMagic || header().nonce != nonce) {
      munmap(memory_.data(), memory_.size());
      throw IoError("the peer's memory is not what it says");
    }
  } catch (...) {
    close(fd_);
    throw;
  }
}

SharedSegment::SharedSegment(SharedSegment&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      members_(other.members_),
      memory_(std::exchange(other.memory_, {})) {}

SharedSegment& SharedSegment::operator=(SharedSegment&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(members_, other.members_);
  std::swap(memory_, other.memory_);
  return *this;
}

SharedSegment::~SharedSegment() {
  if (!memory_.empty()) munmap(memory_.data(), memory_.size());
  if (fd_ >= 0) close(fd_);
}

void SharedSegment::Map(int members) {
  members_ = members;
  void* memory = mmap(nullptr, SegmentBytes(members), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED) Refused("mmap");
  memory_ = {static_cast<std::byte*>(memory), SegmentBytes(members)};
}

std::span<SharedSlot> SharedSegment::slots(int member) const {
  auto* slots = reinterpret_cast<SharedSlot*>(memory_.data() + SlotsAt());
  return {slots + static_cast<ptrdiff_t>(member) * kSharedSlots, kSharedSlots};
}

std::span<std::byte> SharedSegment::stage(int member, int slot) const {
  const auto index = static_cast<size_t>(member) * kSharedSlots + static_cast<size_t>(slot);
  return memory_.subspan(StagesAt(members_) + index * kStageBytes, kStageBytes);
}

// Either the ringer sees the sleeper, or the sleeper the rung bell: both orders are total.
void SharedSegment::Ring() const noexcept {
  SharedHeader& owner = header();
  owner.bell.fetch_add(1, std::memory_order_seq_cst);
  if (owner.sleepers.load(std::memory_order_seq_cst) == 0) return;
  syscall(SYS_futex, &owner.bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void SharedSegment::AwaitBell(uint32_t seen, std::chrono::milliseconds patience) const {
  SharedHeader& own = header();
  for (int look = 0; look < kLooks; ++look) {
    if (Bell() != seen) return;
    if (look % kLooksPerOffer == kLooksPerOffer - 1) {
      sched_yield();
    } else {
      Relax();
    }
  }
  const timespec time{.tv_sec = patience.count() / 1000,
                      .tv_nsec = patience.count() % 1000 * 1'000'000};
  own.sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (own.bell.load(std::memory_order_seq_cst) == seen) {
    syscall(SYS_futex, &own.bell, FUTEX_WAIT, seen, &time, nullptr, 0);
  }
  own.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

void SharedSegment::ShowAborted(std::string_view reason) const noexcept {
  SharedHeader& own = header();
  const size_t length = std::min(reason.size(), sizeof(own.reason) - 1);
  std::memcpy(own.reason, reason.data(), length);
  own.reason[length] = 0;
  own.aborted.store(1, std::memory_order_release);
}

std::string SharedSegment::Reason() const {
  const SharedHeader& owner = header();
  return {owner.reason, strnlen(owner.reason, sizeof(owner.reason))};
}

}  // namespace thinwire::transport
