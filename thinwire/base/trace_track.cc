#include "thinwire/base/trace_track.h"

#include <algorithm>
#include <utility>

namespace thinwire {

int64_t TraceTime(std::chrono::steady_clock::time_point time) {
  return std::chrono::nanoseconds(time.time_since_epoch()).count();
}

void TraceTrack::Start(size_t most, TraceState first) {
  const std::lock_guard lock(mutex_);
  taken_ = {};
  taken_.states.reserve(most);
  most_ = most;
  first.at_ns = TraceNow();
  taken_.states.push_back(first);
  on_.store(true, std::memory_order_relaxed);
}

TraceTrack::Taken TraceTrack::Take() {
  const std::lock_guard lock(mutex_);
  on_.store(false, std::memory_order_relaxed);
  if (taken_.lost == 0) taken_.end_ns = TraceNow();
  return std::exchange(taken_, {});
}

void TraceTrack::Keep(TraceState state, int64_t at_ns) {
  const std::lock_guard lock(mutex_);
  if (!on_.load(std::memory_order_relaxed)) return;
  if (taken_.states.size() == most_) {
    if (taken_.lost++ == 0) taken_.end_ns = at_ns;
    return;
  }
  // A moment that has passed may be of before the start.
  state.at_ns = std::max(at_ns, taken_.states.back().at_ns);
  taken_.states.push_back(state);
}

}  // namespace thinwire
