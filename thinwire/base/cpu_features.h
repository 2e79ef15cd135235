// The instruction sets kernels are compiled for, and the best one this processor has.
#pragma once

#include <string_view>
#include <vector>

namespace thinwire {

enum class Isa { kScalar, kAvx2, kAvx512, kNeon };

std::string_view NameOf(Isa isa);

// Every instruction set that this build has and this processor runs, worst first.
std::vector<Isa> SupportedIsas();

// The last of SupportedIsas(), capped by the environment variable THINWIRE_ISA
// (scalar, avx2, avx512, neon). Throws UsageError on another value.
Isa BestIsa();

// Cores that this process may run on; at least 1.
int UsableCores();

}  // namespace thinwire
