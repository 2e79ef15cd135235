#include "thinwire/base/cpu_features.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "thinwire/base/error.h"

namespace thinwire {

std::string_view NameOf(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kNeon:
      return "neon";
  }
  return "unknown";
}

std::vector<Isa> SupportedIsas() {
  std::vector<Isa> isas{Isa::kScalar};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) isas.push_back(Isa::kAvx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16")) {
    isas.push_back(Isa::kAvx512);
  }
#elif defined(__aarch64__)
  isas.push_back(Isa::kNeon);
#endif
  return isas;
}

Isa BestIsa() {
  const std::vector<Isa> isas = SupportedIsas();
  const char* cap = std::getenv("THINWIRE_ISA");
  if (cap == nullptr || *cap == '\0') return isas.back();
  const auto found =
      std::find_if(isas.begin(), isas.end(), [&](Isa isa) { return NameOf(isa) == cap; });
  if (found == isas.end()) {
    throw UsageError(StrCat("THINWIRE_ISA=", cap, ": this processor offers up to ",
                            NameOf(isas.back()), "; unset it or use scalar"));
  }
  return *found;
}

int UsableCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace thinwire
