// What this process holds in memory, as the kernel counts it.
#pragma once

#include <cstdint>

namespace thinwire {

int64_t ResidentBytes();
// What the machine could give to new programs without swapping; 0 when the kernel does not say.
int64_t AvailableBytes();
// The most since the process began, or since ForgetPeak().
int64_t PeakResidentBytes();
// Starts the peak anew at what is resident now. Where the kernel does not permit it, nothing
// happens.
void ForgetPeak();

}  // namespace thinwire
