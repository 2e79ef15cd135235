// What this machine offers, as far as `thinwire info` tells.
#pragma once

#include <cstdint>
#include <string>

namespace thinwire::app {

// Bytes of /proc/meminfo's `key` ("MemTotal"); -1 when it does not say.
int64_t MemoryInfo(const std::string& key);

// "available", or why not. Asks the kernel for a ring: containers often forbid it.
std::string ProbeIoUring();

// 1234567890 as "1.15 GiB".
std::string HumanBytes(int64_t bytes);

}  // namespace thinwire::app
