// Only for x_isa.cc: 32 consecutive fp32 values in vector registers, and the steps of block
// quantization on them. Kernels written on a Group are the same on every instruction set; what
// compilers vectorize badly (conversions, packing, unpacking) is in lanes_<isa>-inl.h:
//
//   Vector                    fp32 lanes of one register, with the compiler's arithmetic operators
//   Load(Elements, in)        32 elements at any address, as fp32
//   Store(Elements, out, x)   the inverse; NaN and numbers that are subnormal in fp32 do not occur,
//                             but for NaN with the bits 0x7fc00000
//   Extremes                  running maxima over groups, for ExtremeKey (block_scale.h)
//   StoreInt8, StoreInt4      32 codes, x rounded to nearest even; int4 bounded above by 7
//   RoundedBytes              the same as int8 in a register
//   Int8Decoder, Int4Decoder  32 values from codes, times a factor
//   Widened                   the same from int8 in a register
//   Rounded, Bounded          to the nearest integer, ties to even; into [low, high]
//   Canonical                 as in elements-inl.h
//   Butterfly<kStride>        a, b -> a + b, a - b for lanes kStride apart, of one register
#pragma once

#include "thinwire/kernels/elements-inl.h"
#include "thinwire/kernels/quantize_isa.h"

// Every 64-bit Arm has NEON, so the compiler's macros do not tell which of its builds this is.
#define THINWIRE_LANES_neon 1
#define THINWIRE_LANES_CONCAT(a, b) a##b
#define THINWIRE_LANES(isa) THINWIRE_LANES_CONCAT(THINWIRE_LANES_, isa)

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

// Only ever passed by reference: there is no one way to pass it by value without AVX.
typedef uint8_t Bytes32 __attribute__((vector_size(32)));

}  // namespace
}  // namespace thinwire::kernels::THINWIRE_ISA

#if defined(__AVX512F__)
#include "thinwire/kernels/lanes_avx512-inl.h"
#elif defined(__AVX2__)
#include "thinwire/kernels/lanes_avx2-inl.h"
#elif THINWIRE_LANES(THINWIRE_ISA)
#include "thinwire/kernels/lanes_neon-inl.h"
#else
#include "thinwire/kernels/lanes_scalar-inl.h"
#endif

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

constexpr int kVectors = kBlockUnit * sizeof(float) / sizeof(Vector);

THINWIRE_INLINE Group Scaled(Group x, float factor) {
  for (int k = 0; k < kVectors; ++k) x.v[k] = x.v[k] * factor;
  return x;
}

THINWIRE_INLINE Group Plus(Group a, const Group& b) {
  for (int k = 0; k < kVectors; ++k) a.v[k] = a.v[k] + b.v[k];
  return a;
}

THINWIRE_INLINE Group SquaredDifference(Group a, const Group& b) {
  for (int k = 0; k < kVectors; ++k) a.v[k] = (a.v[k] - b.v[k]) * (a.v[k] - b.v[k]);
  return a;
}

THINWIRE_INLINE float SumOfLanes(const Group& x) {
  float lanes[kBlockUnit];
  __builtin_memcpy(lanes, &x, sizeof(lanes));
  for (int64_t half = kBlockUnit / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

}  // namespace
}  // namespace thinwire::kernels::THINWIRE_ISA
