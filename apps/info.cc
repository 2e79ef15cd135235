#include "apps/info.h"

#include <algorithm>
#include <fstream>
#include <iomanip>
#include <ostream>
#include <string>
#include <thread>

#include "apps/hand_over.h"
#include "apps/machine.h"
#include "thinwire/base/cpu_features.h"
#include "thinwire/base/error.h"

namespace thinwire::app {
namespace {

// As thinwire_per_isa (cmake/layer.cmake) compiles the kernels.
#if defined(__x86_64__)
constexpr Isa kBuilt[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512};
#elif defined(__aarch64__)
constexpr Isa kBuilt[] = {Isa::kScalar, Isa::kNeon};
#else
constexpr Isa kBuilt[] = {Isa::kScalar};
#endif

std::string InstructionSets() {
  const std::vector<Isa> here = SupportedIsas();
  std::string text;
  for (const Isa isa : kBuilt) {
    if (!text.empty()) text += ", ";
    text += NameOf(isa);
    if (std::find(here.begin(), here.end(), isa) == here.end()) text += " (not on this machine)";
  }
  return text;
}

std::string UsedInstructionSet() {
  try {
    return StrCat(NameOf(BestIsa()), ", the best here that THINWIRE_ISA allows");
  } catch (const UsageError& error) {
    return error.what();
  }
}

// The version that the torch package in `directory` states.
std::string TorchVersion(const std::string& directory) {
  std::ifstream file(directory + "/version.py");
  std::string line;
  while (std::getline(file, line)) {
    const size_t open = line.find('\'');
    const size_t close = line.rfind('\'');
    if (line.starts_with("__version__") && open < close) {
      return line.substr(open + 1, close - open - 1);
    }
  }
  return "";
}

std::string Train() {
  const std::string binary = BinaryBeside("thinwire-train");
  if (!IsExecutable(binary)) return StrCat("not built (", binary, "); train and generate need it");
  return binary;
}

std::string Torch() {
  const std::string directory = THINWIRE_TORCH_DIR;
  if (directory.empty()) return "none, built with -DTHINWIRE_TORCH=OFF";
  const std::string version = TorchVersion(directory);
  return version.empty()
             ? StrCat("missing: it was in ", directory, " at build time; run `make setup`")
             : StrCat(version, " in ", directory);
}

std::string Memory() {
  const int64_t total = MemoryInfo("MemTotal");
  const int64_t available = MemoryInfo("MemAvailable");
  if (total < 0 || available < 0) return "unknown (no /proc/meminfo)";
  return StrCat(HumanBytes(total), ", ", HumanBytes(available), " available");
}

}  // namespace

void PrintInfo(std::ostream& out) {
  const auto line = [&](const char* what, const std::string& value) {
    out << std::left << std::setw(18) << what << value << '\n';
  };
  const std::string build = THINWIRE_BUILD_TYPE;
  line("version", THINWIRE_VERSION);
  line("build type", build.empty() ? "none" : build);
  line("compiler", THINWIRE_COMPILER);
  line("instruction sets", InstructionSets());
  line("used", UsedInstructionSet());
  line("cores", StrCat(UsableCores(), " of ", std::thread::hardware_concurrency(), " usable"));
  line("memory", Memory());
  line("io_uring", ProbeIoUring());
  line("thinwire-train", Train());
  line("torch", Torch());
}

}  // namespace thinwire::app
