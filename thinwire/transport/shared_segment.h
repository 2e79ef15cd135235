// What one rank shows to the ranks of its machine: a bell, and the messages it has for each of
// them, in memory that all of them map.
//
// The memory is an anonymous file (memfd): it has no name, is in no folder, needs no room in
// /dev/shm, and is gone with the last process that maps it, however that one ends. It is sealed
// against shrinking, so no peer can take it away. Pages cost memory once they are touched.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace thinwire::transport {

// Messages in flight from one rank to another; later ones wait at their sender.
inline constexpr int kSharedSlots = 16;
// A message goes through a ring of this size, in pieces of a quarter of it: small enough for the
// cores' caches, large enough that ranks that share a core change places rarely.
inline constexpr size_t kStageBytes = size_t{256} << 10;
inline constexpr size_t kStagePiece = kStageBytes / 4;

// One message from the owner of the segment. Whose turn it is:
//   kFree    the sender's
//   kPosted  whoever comes first: the receiver takes it, or the sender withdraws it
//   kTaken   the receiver's, but for `staged`
//   kGone    the receiver's: the sender has withdrawn it after it was taken
//   kDone, kRefused  the sender's again
enum class SlotPhase : uint8_t { kFree, kPosted, kTaken, kGone, kDone, kRefused };

struct alignas(128) SharedSlot {
  // Phase and the sequence number of the message: a slot that was withdrawn and filled anew is
  // never taken for what it held before.
  std::atomic<uint64_t> word;
  std::atomic<uint64_t> bytes;
  std::atomic<uint64_t> expected;  // with kRefused: the size that the receiver wants
  std::atomic<uint32_t> tag;
  alignas(64) std::atomic<uint64_t> staged;  // bytes that the sender has put into the ring
  alignas(64) std::atomic<uint64_t> taken;   // bytes that the receiver has taken out of it
};

struct SharedHeader {
  uint64_t magic;
  uint64_t nonce;
  alignas(128) std::atomic<uint32_t> bell;  // a futex: rung when something changed for the owner
  std::atomic<uint32_t> sleepers;           // threads of the owner that wait for it
  alignas(64) std::atomic<uint32_t> aborted;
  char reason[448];  // when aborted
};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "processes share them");

constexpr uint64_t SlotWord(uint64_t sequence, SlotPhase phase) {
  return sequence << 8 | static_cast<uint64_t>(phase);
}
constexpr SlotPhase PhaseOf(uint64_t word) { return static_cast<SlotPhase>(word & 0xff); }
constexpr uint64_t SequenceOf(uint64_t word) { return word >> 8; }

// A mapping of a segment, one's own or a peer's.
class SharedSegment {
 public:
  // Makes one for `members` ranks. Throws IoError saying what the system refused.
  SharedSegment(int members, uint64_t nonce);
  // Maps that of a peer; takes over `fd`. Throws IoError unless it is one of this version for as
  // many members, sealed, and with this nonce in it.
  SharedSegment(int fd, int members, uint64_t nonce);
  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&& other) noexcept;
  ~SharedSegment();

  int fd() const { return fd_; }
  SharedHeader& header() const { return *reinterpret_cast<SharedHeader*>(memory_.data()); }
  // Messages to `member`, and the rings they may go through.
  std::span<SharedSlot> slots(int member) const;
  std::span<std::byte> stage(int member, int slot) const;

  // Tells the owner that something changed.
  void Ring() const noexcept;
  // For the owner: the bell as it is now, and a wait until it is another than `seen`, for
  // `patience` at most. It looks at the bell for some microseconds first, then sleeps.
  uint32_t Bell() const { return header().bell.load(std::memory_order_acquire); }
  void AwaitBell(uint32_t seen, std::chrono::milliseconds patience) const;
  // For the owner: what peers see from now on. Cut to what fits.
  void ShowAborted(std::string_view reason) const noexcept;
  std::string Reason() const;

 private:
  void Map(int members);

  int fd_ = -1;
  int members_ = 0;
  std::span<std::byte> memory_;
};

}  // namespace thinwire::transport
