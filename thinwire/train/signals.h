// SIGINT and SIGTERM ask the run to stop at the next step; one that comes later than
// kSameRequestMs after the first ends the process at once. What comes sooner is the same request: a
// service manager signals the launcher and its ranks, and the launcher hands its own on.
#pragma once

#include <signal.h>

namespace thinwire::train {

// While one lives, the two signals set a flag. One at a time per process.
class StopSignals {
 public:
  static constexpr long kSameRequestMs = 1000;

  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  bool requested() const;

 private:
  struct sigaction old_interrupt_;
  struct sigaction old_terminate_;
};

}  // namespace thinwire::train
