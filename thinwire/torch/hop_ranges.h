// Every hop as a named range of torch.profiler.
//
// Profilers belong to the thread that started them, and their lists of events must not grow in
// other threads while they end. So the lanes only note when an exchange began and ended, and the
// caller's thread, inside its own calls, has that entered: by a thread for each lane, which gives
// each a track of its own in the trace.
#pragma once

#include <memory>

#include "thinwire/zero/engine.h"

namespace thinwire::adapter {

class HopRanges {
 public:
  explicit HopRanges(zero::Engine& engine);
  ~HopRanges();
  HopRanges(const HopRanges&) = delete;
  HopRanges& operator=(const HopRanges&) = delete;

  // Enters what completed since the last call, if a profiler of torch ran in this thread then and
  // still does. Costs next to nothing while none does.
  void Report();

 private:
  class Track;

  zero::Engine& engine_;
  bool watching_ = false;
  std::unique_ptr<Track> slow_, fast_;  // made at their first use
};

}  // namespace thinwire::adapter
