#include "thinwire/transport/shared_link.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::transport {
namespace {

using State = SharedMessage::State;
constexpr auto kRelaxed = std::memory_order_relaxed;

// Refused by a receiver for another reason than its size.
constexpr uint64_t kGivenUp = UINT64_MAX;

}  // namespace

void SharedQueue::Append(SharedMessage& message) {
  message.next = nullptr;
  message.previous = last;
  (last != nullptr ? last->next : first) = &message;
  last = &message;
}

void SharedQueue::Remove(SharedMessage& message) {
  (message.previous != nullptr ? message.previous->next : first) = message.next;
  (message.next != nullptr ? message.next->previous : last) = message.previous;
}

SharedLink::SharedLink(int rank, int peer_rank, int me, const SharedSegment& own, SharedPeer peer)
    : rank_(rank),
      peer_rank_(peer_rank),
      me_(me),
      own_(own),
      peer_(std::move(peer)),
      out_(own_.slots(peer_.member)),
      in_(peer_.segment.slots(me_)) {}

void SharedLink::Post(SharedMessage& message) {
  (message.send ? sends_ : receives_).Append(message);
}

bool SharedLink::Pump() {
  bool changed = false;
  for (SharedMessage* each = sends_.first; each != nullptr;) {
    SharedMessage* const next = each->next;
    changed |= PumpSend(*each);
    each = next;
  }
  for (SharedMessage* each = receives_.first; each != nullptr;) {
    SharedMessage* const next = each->next;
    changed |= PumpReceive(*each);
    each = next;
  }
  return changed;
}

bool SharedLink::PumpSend(SharedMessage& message) {
  if (message.state == State::kPosted) return Place(message);
  SharedSlot& slot = out_[static_cast<size_t>(message.slot)];
  const SlotPhase phase = PhaseOf(slot.word.load(std::memory_order_acquire));
  if (phase == SlotPhase::kDone) {
    Finish(message, "");
    return true;
  }
  if (phase == SlotPhase::kRefused) {
    const uint64_t expected = slot.expected.load(kRelaxed);
    Finish(message, expected == kGivenUp
                        ? StrCat("rank ", peer_rank_, " gave up a message of rank ", rank_,
                                 " under tag ", message.tag)
                        : SizesDiffer(message, expected));
    return true;
  }
  return Stage(message);
}

// Into the lowest free slot, so that few pages of rings are ever touched.
bool SharedLink::Place(SharedMessage& message) {
  for (size_t i = 0; i < out_.size(); ++i) {
    SharedSlot& slot = out_[i];
    const SlotPhase phase = PhaseOf(slot.word.load(std::memory_order_acquire));
    const bool free =
        phase == SlotPhase::kFree || phase == SlotPhase::kDone || phase == SlotPhase::kRefused;
    if (in_use_[i] || !free) continue;
    in_use_[i] = true;
    message.slot = static_cast<int>(i);
    message.sequence = ++sequence_;
    message.moved = 0;
    message.state = State::kMoving;
    slot.bytes.store(message.bytes, kRelaxed);
    slot.tag.store(message.tag, kRelaxed);
    slot.staged.store(0, kRelaxed);
    slot.taken.store(0, kRelaxed);
    slot.word.store(SlotWord(message.sequence, SlotPhase::kPosted), std::memory_order_release);
    Stage(message);
    return true;
  }
  return false;
}

// At most a ring in one go, so that no message holds the lock for long. The peer is told at each
// half of it and at the end: a wake-up costs as much as a piece.
bool SharedLink::Stage(SharedMessage& message) {
  SharedSlot& slot = out_[static_cast<size_t>(message.slot)];
  const std::span<std::byte> ring = own_.stage(peer_.member, message.slot);
  const size_t end = std::min(message.bytes, message.moved + kStageBytes);
  bool changed = false;
  while (message.moved < end) {
    const size_t at = message.moved % kStageBytes;
    const size_t piece = std::min({kStagePiece, message.bytes - message.moved, kStageBytes - at});
    const uint64_t taken = slot.taken.load(std::memory_order_acquire);
    if (taken > message.moved || message.moved + piece - taken > kStageBytes) break;
    std::memcpy(ring.data() + at, message.data + message.moved, piece);
    message.moved += piece;
    slot.staged.store(message.moved, std::memory_order_release);
    if (message.moved % (kStageBytes / 2) == 0) Ring();
    changed = true;
  }
  if (changed) Ring();
  return changed;
}

bool SharedLink::PumpReceive(SharedMessage& message) {
  if (message.state == State::kMoving) return Unstage(message);
  // What comes while this looks through the receives is the first one's under its tag.
  for (const SharedMessage* older = message.previous; older != nullptr; older = older->previous) {
    if (older->state == State::kPosted && older->tag == message.tag) return false;
  }
  if (!Take(message)) return false;
  message.state = State::kMoving;
  SharedSlot& slot = in_[static_cast<size_t>(message.slot)];
  const uint64_t sent = slot.bytes.load(kRelaxed);
  if (sent != message.bytes) {
    slot.expected.store(message.bytes, kRelaxed);
    EndReceive(message, SizesDiffer(message, sent));
  } else {
    Unstage(message);
  }
  return true;
}

// The oldest posted message under the tag: its slot, and what its word was; -1 when there is none.
std::pair<int, uint64_t> SharedLink::Oldest(Tag tag) const {
  std::pair<int, uint64_t> oldest(-1, 0);
  for (size_t i = 0; i < in_.size(); ++i) {
    const uint64_t word = in_[i].word.load(std::memory_order_acquire);
    if (PhaseOf(word) != SlotPhase::kPosted || in_[i].tag.load(kRelaxed) != tag) continue;
    if (oldest.first >= 0 && SequenceOf(word) > SequenceOf(oldest.second)) continue;
    oldest = {static_cast<int>(i), word};
  }
  return oldest;
}

bool SharedLink::Take(SharedMessage& message) {
  // An older one may have come into a slot behind the first look; a second look finds it, since
  // messages are posted in order.
  while (Oldest(message.tag).first >= 0) {
    auto [slot, word] = Oldest(message.tag);
    if (slot < 0) return false;
    const uint64_t sequence = SequenceOf(word);
    // Fails when the sender has withdrawn it meanwhile.
    if (in_[static_cast<size_t>(slot)].word.compare_exchange_strong(
            word, SlotWord(sequence, SlotPhase::kTaken), std::memory_order_acq_rel)) {
      message.slot = slot;
      message.sequence = sequence;
      message.moved = 0;
      return true;
    }
  }
  return false;
}

bool SharedLink::Unstage(SharedMessage& message) {
  SharedSlot& slot = in_[static_cast<size_t>(message.slot)];
  if (PhaseOf(slot.word.load(std::memory_order_acquire)) == SlotPhase::kGone) {
    EndReceive(message, "");
    return true;
  }
  const std::span<std::byte> ring = peer_.segment.stage(me_, message.slot);
  const size_t end = std::min(message.bytes, message.moved + kStageBytes);
  bool changed = false;
  while (message.moved < end) {
    const uint64_t staged = slot.staged.load(std::memory_order_acquire);
    if (staged <= message.moved || staged - message.moved > kStageBytes) break;
    const size_t at = message.moved % kStageBytes;
    const size_t piece = std::min({kStagePiece, static_cast<size_t>(staged) - message.moved,
                                   message.bytes - message.moved, kStageBytes - at});
    std::memcpy(message.data + message.moved, ring.data() + at, piece);
    message.moved += piece;
    slot.taken.store(message.moved, std::memory_order_release);
    if (message.moved % (kStageBytes / 2) == 0) Ring();
    changed = true;
  }
  if (message.moved == message.bytes) {
    EndReceive(message, "");
  } else if (changed) {
    Ring();
  }
  return changed;
}

// Tells the sender how it ended; whether it is still there decides whether the bytes count.
void SharedLink::EndReceive(SharedMessage& message, std::string error) {
  SharedSlot& slot = in_[static_cast<size_t>(message.slot)];
  uint64_t word = SlotWord(message.sequence, SlotPhase::kTaken);
  const SlotPhase end = error.empty() ? SlotPhase::kDone : SlotPhase::kRefused;
  if (!slot.word.compare_exchange_strong(word, SlotWord(message.sequence, end),
                                         std::memory_order_acq_rel)) {
    slot.word.store(SlotWord(message.sequence, SlotPhase::kDone), std::memory_order_release);
    if (error.empty()) {
      error = StrCat("rank ", peer_rank_, " withdrew a message to rank ", rank_, " under tag ",
                     message.tag);
    }
  }
  Ring();
  Finish(message, std::move(error));
}

void SharedLink::Finish(SharedMessage& message, std::string error) {
  (message.send ? sends_ : receives_).Remove(message);
  if (message.send && message.slot >= 0) in_use_[static_cast<size_t>(message.slot)] = false;
  message.slot = -1;
  message.error = std::move(error);
  message.state = State::kFinished;
}

void SharedLink::Withdraw(SharedMessage& message) noexcept {
  if (message.state == State::kMoving && message.send) {
    SharedSlot& slot = out_[static_cast<size_t>(message.slot)];
    uint64_t word = SlotWord(message.sequence, SlotPhase::kPosted);
    if (!slot.word.compare_exchange_strong(word, SlotWord(message.sequence, SlotPhase::kFree),
                                           std::memory_order_acq_rel)) {
      word = SlotWord(message.sequence, SlotPhase::kTaken);
      slot.word.compare_exchange_strong(word, SlotWord(message.sequence, SlotPhase::kGone),
                                        std::memory_order_acq_rel);
    }
    Ring();
  } else if (message.state == State::kMoving) {
    in_[static_cast<size_t>(message.slot)].expected.store(kGivenUp, kRelaxed);
    EndReceive(message, "given up");
    return;
  }
  Finish(message, "");
}

void SharedLink::FailAll(const std::string& error) noexcept {
  for (SharedQueue* queue : {&sends_, &receives_}) {
    for (SharedMessage* each = queue->first; each != nullptr;) {
      SharedMessage* const next = each->next;
      Withdraw(*each);
      each->error = error;
      each = next;
    }
  }
}

bool SharedLink::Alive() {
  if (lost_) return false;
  pollfd ends[2] = {{.fd = peer_.socket.get(), .events = POLLRDHUP, .revents = 0},
                    {.fd = peer_.process.get(), .events = POLLIN, .revents = 0}};
  // A descriptor of -1 is passed over.
  lost_ = poll(ends, 2, 0) > 0;
  return !lost_;
}

std::optional<std::string> SharedLink::Broken() const {
  if (peer_.segment.header().aborted.load(std::memory_order_acquire) != 0) {
    return StrCat("rank ", peer_rank_, " aborted: ", peer_.segment.Reason());
  }
  if (lost_) {
    return StrCat("rank ", rank_, " lost contact with rank ", peer_rank_, ": it has ended");
  }
  return std::nullopt;
}

std::string SharedLink::SizesDiffer(const SharedMessage& message, uint64_t other) const {
  const int from = message.send ? rank_ : peer_rank_, to = message.send ? peer_rank_ : rank_;
  const uint64_t sent = message.send ? message.bytes : other;
  const uint64_t expected = message.send ? other : message.bytes;
  return StrCat("rank ", from, " sends ", sent, " bytes to rank ", to, " under tag ", message.tag,
                ", which expects ", expected);
}

}  // namespace thinwire::transport
