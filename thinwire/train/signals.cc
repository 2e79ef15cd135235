#include "thinwire/train/signals.h"

#include <unistd.h>

namespace thinwire::train {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
volatile sig_atomic_t stop_requested = 0;  // NOLINT(mutable-global): all a signal handler can reach

extern "C" void OnStopSignal(int signal) {
  if (stop_requested != 0) _exit(128 + signal);
  stop_requested = 1;
}

}  // namespace

StopSignals::StopSignals() {
  stop_requested = 0;
  struct sigaction action {};
  action.sa_handler = OnStopSignal;
  // System calls go on: nothing in a step knows what to do with EINTR.
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &old_interrupt_);
  sigaction(SIGTERM, &action, &old_terminate_);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &old_interrupt_, nullptr);
  sigaction(SIGTERM, &old_terminate_, nullptr);
}

bool StopSignals::requested() const { return stop_requested != 0; }

}  // namespace thinwire::train
