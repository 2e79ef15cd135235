// Time on a processor, which what else runs on the machine does not lengthen.
#pragma once

#include <ctime>

namespace thinwire::planner {

inline double ClockSeconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline double ThreadCpuSeconds() { return ClockSeconds(CLOCK_THREAD_CPUTIME_ID); }
inline double ProcessCpuSeconds() { return ClockSeconds(CLOCK_PROCESS_CPUTIME_ID); }
inline double WallSeconds() { return ClockSeconds(CLOCK_MONOTONIC); }

}  // namespace thinwire::planner
