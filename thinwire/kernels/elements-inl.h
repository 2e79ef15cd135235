// Only for x_isa.cc: elements of each dtype at any byte address, read and written as fp32.
// Everything here has internal linkage and is inlined, so that code for one instruction set cannot
// leak into another's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "thinwire/base/dtype.h"

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

// A message may start at any byte, and elements are the caller's typed objects.
typedef uint32_t Word32 __attribute__((aligned(1), may_alias));
typedef uint16_t Word16 __attribute__((aligned(1), may_alias));

struct F32Elements {
  THINWIRE_INLINE static float Load(const std::byte* data, int64_t i) {
    return __builtin_bit_cast(float, uint32_t{reinterpret_cast<const Word32*>(data)[i]});
  }
  THINWIRE_INLINE static void Store(std::byte* data, int64_t i, float x) {
    reinterpret_cast<Word32*>(data)[i] = __builtin_bit_cast(uint32_t, x);
  }
};

struct BF16Elements {
  THINWIRE_INLINE static float Load(const std::byte* data, int64_t i) {
    return ToFloat(BF16{reinterpret_cast<const Word16*>(data)[i]});
  }
  THINWIRE_INLINE static void Store(std::byte* data, int64_t i, float x) {
    reinterpret_cast<Word16*>(data)[i] = ToBF16(x).bits;
  }
};

struct FP16Elements {
  THINWIRE_INLINE static float Load(const std::byte* data, int64_t i) {
    return ToFloat(FP16{reinterpret_cast<const Word16*>(data)[i]});
  }
  THINWIRE_INLINE static void Store(std::byte* data, int64_t i, float x) {
    reinterpret_cast<Word16*>(data)[i] = ToFP16(x).bits;
  }
};

// Calls body with the elements of `dtype`.
template <typename Body>
THINWIRE_INLINE void WithElements(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF32:
      return body(F32Elements{});
    case DType::kBF16:
      return body(BF16Elements{});
    case DType::kF16:
      return body(FP16Elements{});
  }
}

// x, or the one NaN of arithmetic results. Which operand's payload an addition hands on is the
// compiler's choice and differs between instruction sets, so results keep none.
THINWIRE_INLINE float Canonical(float x) {
  return x == x ? x : __builtin_bit_cast(float, 0x7fc00000u);
}

}  // namespace
}  // namespace thinwire::kernels::THINWIRE_ISA
