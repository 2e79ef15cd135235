// What the lanes did, exchange by exchange, for a profiler: kept while somebody watches.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "thinwire/zero/routes.h"

namespace thinwire::zero {

using HopClock = std::chrono::steady_clock;

// One exchange: from its launch, or from the end of the one before it in its lane where that came
// later, to its completion. So those of a lane do not overlap, and their sum is the time in which
// the lane waited for messages, coded or decoded.
struct HopSpan {
  Hop hop = Hop::kSlowGather;
  int unit = 0;
  int64_t bytes = 0;  // that this rank sent
  HopClock::time_point begin{}, end{};

  std::chrono::nanoseconds duration() const { return end - begin; }
};

// Used with the monitor's lock held.
class HopWatch {
 public:
  // The span of an exchange that is complete now. A hop of one member is none.
  HopSpan Complete(Hop hop, int unit, int64_t bytes, HopClock::time_point launched) {
    const HopClock::time_point now = HopClock::now();
    HopClock::time_point& free = lane_free_[IsSlow(hop) ? 1 : 0];
    const HopSpan span{hop, unit, bytes, std::max(launched, free), now};
    free = now;
    if (watching_) spans_.push_back(span);
    return span;
  }

  // What was kept since the last call; from now on there is more if `watch`.
  std::vector<HopSpan> Take(bool watch) {
    watching_ = watch;
    return std::exchange(spans_, {});
  }

 private:
  bool watching_ = false;
  std::array<HopClock::time_point, 2> lane_free_{};  // when the last exchange of each ended
  std::vector<HopSpan> spans_;
};

}  // namespace thinwire::zero
