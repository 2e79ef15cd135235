#include "thinwire/train/signals.h"

#include <time.h>
#include <unistd.h>

namespace thinwire::train {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
volatile sig_atomic_t stop_requested = 0;  // NOLINT(mutable-global): all a signal handler can reach
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
timespec first_request;  // NOLINT(mutable-global): the same; only the handler uses it

extern "C" void OnStopSignal(int signal) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (stop_requested == 0) {
    first_request = now;
    stop_requested = 1;
    return;
  }
  const long since_ms = (now.tv_sec - first_request.tv_sec) * 1000 +
                        (now.tv_nsec - first_request.tv_nsec) / 1'000'000;
  if (since_ms > StopSignals::kSameRequestMs) _exit(128 + signal);
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
