#include "apps/hand_over.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "thinwire/base/error.h"

namespace thinwire::app {

std::string BinaryBeside(const std::string& name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "./" + name : (self.parent_path() / name).string();
}

bool IsExecutable(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

void HandOver(const std::string& name, const std::string& builds, char** argv) {
  const std::string binary = BinaryBeside(name);
  if (!IsExecutable(binary)) {
    throw UsageError(
        StrCat("`thinwire ", argv[1], "` needs ", binary, ", which was not built; ", builds));
  }
  ::execv(binary.c_str(), argv);
  throw UsageError(StrCat("cannot start ", binary, ": ", std::strerror(errno)));
}

}  // namespace thinwire::app
