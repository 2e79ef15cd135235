#include "thinwire/torch/machine.h"

#include <sys/stat.h>

#include <fstream>

#include "thinwire/base/error.h"

namespace thinwire::adapter {

std::string ThisMachine() {
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  struct stat network {};
  if (stat("/proc/self/ns/net", &network) != 0) network.st_ino = 0;
  return StrCat(boot_id, "/", network.st_ino);
}

}  // namespace thinwire::adapter
