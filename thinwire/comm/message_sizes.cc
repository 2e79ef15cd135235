#include "thinwire/comm/message_sizes.h"

#include <algorithm>

#include "thinwire/base/error.h"

namespace thinwire::comm {
namespace {

// Tags of a lane count modulo 2^29 (comm/lane.h).
constexpr uint32_t kTagMask = 0x1fffffff;

}  // namespace

void AnnouncedSize::Announce(transport::Tag tag, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  last_[next_ % kLongestLag] = {tag, bytes};
  ++next_;
}

int64_t AnnouncedSize::At(transport::Tag tag, uint32_t lag, int64_t most) const {
  const std::lock_guard lock(mutex_);
  for (uint32_t back = 1; back <= kLongestLag; ++back) {
    const Announcement& announcement = last_[(next_ - back) % kLongestLag];
    if (announcement.bytes == 0) break;
    if (((tag - announcement.tag) & kTagMask) >= lag) return std::min(announcement.bytes, most);
  }
  return most;
}

MessageSizes::MessageSizes(int members, uint32_t in_flight)
    : lag(in_flight), sends(static_cast<size_t>(members)), receives(static_cast<size_t>(members)) {
  THINWIRE_CHECK(lag >= 1 && lag <= AnnouncedSize::kLongestLag, lag, " exchanges in flight");
}

int64_t SizeToAnnounce(int64_t bytes, int64_t most) {
  return std::min(most, bytes + bytes / 128 + 64);
}

}  // namespace thinwire::comm
