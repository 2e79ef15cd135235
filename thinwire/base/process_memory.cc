#include "thinwire/base/process_memory.h"

#include <fstream>
#include <limits>
#include <string>

namespace thinwire {
namespace {

// A line such as "VmRSS:   1024 kB" of a file of /proc.
int64_t BytesIn(const char* file, const std::string& name) {
  std::ifstream status(file);
  std::string word;
  while (status >> word) {
    int64_t kib = 0;
    if (word == name && status >> kib) return kib * 1024;
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

}  // namespace

int64_t ResidentBytes() { return BytesIn("/proc/self/status", "VmRSS:"); }
int64_t AvailableBytes() { return BytesIn("/proc/meminfo", "MemAvailable:"); }
int64_t PeakResidentBytes() { return BytesIn("/proc/self/status", "VmHWM:"); }
void ForgetPeak() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace thinwire
