// SIGINT and SIGTERM ask the run to stop at the next step; a second one ends the process at once.
#pragma once

#include <signal.h>

namespace thinwire::train {

// While one lives, the two signals set a flag. One at a time per process.
class StopSignals {
 public:
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
