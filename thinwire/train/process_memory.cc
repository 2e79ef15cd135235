#include "thinwire/train/process_memory.h"

#include <fstream>
#include <limits>
#include <string>

namespace thinwire::train {
namespace {

int64_t StatusBytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    int64_t kib = 0;
    if (word == name && status >> kib) return kib * 1024;
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

}  // namespace

int64_t ResidentBytes() { return StatusBytes("VmRSS:"); }
int64_t PeakResidentBytes() { return StatusBytes("VmHWM:"); }
void ForgetPeak() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace thinwire::train
