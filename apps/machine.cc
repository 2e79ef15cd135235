#include "apps/machine.h"

#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "thinwire/base/error.h"

namespace thinwire::app {

int64_t MemoryInfo(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    int64_t kib = 0;
    if (words >> name >> kib && name == key + ":") return kib * 1024;
  }
  return -1;
}

std::string ProbeIoUring() {
  io_uring_params params{};
  const long ring = ::syscall(__NR_io_uring_setup, 1, &params);
  if (ring >= 0) {
    ::close(static_cast<int>(ring));
    return "available";
  }
  switch (errno) {
    case ENOSYS:
      return "not available (the kernel has none, or the container hides it)";
    case EPERM:
      return "not available (forbidden here: kernel.io_uring_disabled or the container)";
    default:
      return StrCat("not available (", std::strerror(errno), ")");
  }
}

std::string HumanBytes(int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::ostringstream out;
  if (unit > 0) out << std::fixed << std::setprecision(2);
  out << value << ' ' << kUnits[unit];
  return out.str();
}

}  // namespace thinwire::app
