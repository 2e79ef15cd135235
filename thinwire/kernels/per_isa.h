// How the functions of an x_isa.cc, compiled once per instruction set into the namespaces scalar,
// avx2, avx512 or neon, are declared and chosen. Chosen once per call, outside of all loops.
#pragma once

#include "thinwire/base/cpu_features.h"
#include "thinwire/base/error.h"

// THINWIRE_PER_ISA(declarations...) declares them in the namespace of every instruction set that
// this build has; THINWIRE_PICK(isa, Function) is the pointer to one of them.
#if defined(__x86_64__)
#define THINWIRE_PER_ISA(...) \
  namespace scalar {          \
  __VA_ARGS__                 \
  }                           \
  namespace avx2 {            \
  __VA_ARGS__                 \
  }                           \
  namespace avx512 {          \
  __VA_ARGS__                 \
  }
#define THINWIRE_PICK(isa, Function)                                                            \
  ::thinwire::kernels::PickIsa(isa, scalar::Function, Isa::kAvx2, avx2::Function, Isa::kAvx512, \
                               avx512::Function)
#elif defined(__aarch64__)
#define THINWIRE_PER_ISA(...) \
  namespace scalar {          \
  __VA_ARGS__                 \
  }                           \
  namespace neon {            \
  __VA_ARGS__                 \
  }
#define THINWIRE_PICK(isa, Function) \
  ::thinwire::kernels::PickIsa(isa, scalar::Function, Isa::kNeon, neon::Function)
#else
#define THINWIRE_PER_ISA(...) \
  namespace scalar {          \
  __VA_ARGS__                 \
  }
#define THINWIRE_PICK(isa, Function) ::thinwire::kernels::PickIsa(isa, scalar::Function)
#endif

namespace thinwire::kernels {

template <typename F>
F* PickIsa(Isa isa, F* scalar) {
  THINWIRE_CHECK(isa == Isa::kScalar, "no kernels for ", NameOf(isa), " in this build");
  return scalar;
}

template <typename F, typename... More>
F* PickIsa(Isa isa, F* scalar, Isa candidate, F* function, More... more) {
  return isa == candidate ? function : PickIsa(isa, scalar, more...);
}

}  // namespace thinwire::kernels
