// Only for x_isa.cc: vectors of floats as wide as the instruction set's registers, for kernels
// whose results may differ between instruction sets in their last bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "thinwire/base/dtype.h"
#include "thinwire/kernels/exp-inl.h"

#if defined(__F16C__)
// GCC 12 warns of the operand that its own intrinsics leave undefined (its bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors never cross a function that is not inlined

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

#if defined(__AVX512F__)
constexpr uint32_t kWidth = 16;
#elif defined(__AVX2__)
constexpr uint32_t kWidth = 8;
#else
constexpr uint32_t kWidth = 4;
#endif
typedef float V __attribute__((vector_size(kWidth * 4)));
typedef uint32_t VBits __attribute__((vector_size(kWidth * 4)));

THINWIRE_INLINE V Splat(float x) { return V{} + x; }
THINWIRE_INLINE V Load(const float* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
THINWIRE_INLINE void Store(float* p, V v) { __builtin_memcpy(p, &v, sizeof(v)); }

#if defined(__AVX512F__)
THINWIRE_INLINE V Load(const FP16* p) {
  return reinterpret_cast<V>(
      _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
}
THINWIRE_INLINE void Store(FP16* p, V v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(reinterpret_cast<__m512>(v), _MM_FROUND_TO_NEAREST_INT));
}
// a * b + c, fused where the instruction set has that.
THINWIRE_INLINE V MulAdd(V a, V b, V c) {
  return reinterpret_cast<V>(_mm512_fmadd_ps(
      reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
}
#elif defined(__AVX2__)
THINWIRE_INLINE V Load(const FP16* p) {
  return reinterpret_cast<V>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
THINWIRE_INLINE void Store(FP16* p, V v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(reinterpret_cast<__m256>(v), _MM_FROUND_TO_NEAREST_INT));
}
THINWIRE_INLINE V MulAdd(V a, V b, V c) {
  return reinterpret_cast<V>(_mm256_fmadd_ps(
      reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
}
#else
THINWIRE_INLINE V Load(const FP16* p) {
  V v;
  for (uint32_t lane = 0; lane < kWidth; ++lane) v[lane] = ToFloat(p[lane]);
  return v;
}
THINWIRE_INLINE void Store(FP16* p, V v) {
  for (uint32_t lane = 0; lane < kWidth; ++lane) p[lane] = ToFP16(v[lane]);
}
#if defined(__aarch64__)
THINWIRE_INLINE V MulAdd(V a, V b, V c) {
  return reinterpret_cast<V>(vfmaq_f32(reinterpret_cast<float32x4_t>(c),
                                       reinterpret_cast<float32x4_t>(a),
                                       reinterpret_cast<float32x4_t>(b)));
}
#else
THINWIRE_INLINE V MulAdd(V a, V b, V c) { return a * b + c; }
#endif
#endif

THINWIRE_INLINE V Exp(V x) { return ExpOf<VBits>(x); }

THINWIRE_INLINE V Larger(V a, V b) { return a > b ? a : b; }

// Lane i holds (i + turn) % kWidth.
template <uint32_t... kLanes>
constexpr VBits TurnedLanes(uint32_t turn, std::integer_sequence<uint32_t, kLanes...>) {
  return VBits{(kLanes + turn) % kWidth...};
}
template <uint32_t kTurn>
constexpr VBits kTurned = TurnedLanes(kTurn, std::make_integer_sequence<uint32_t, kWidth>());

template <uint32_t kHalf = kWidth / 2>
THINWIRE_INLINE float SumOfLanes(V v) {
  v += __builtin_shuffle(v, kTurned<kHalf>);
  if constexpr (kHalf > 1) return SumOfLanes<kHalf / 2>(v);
  return v[0];
}
// NaN need not come through.
template <uint32_t kHalf = kWidth / 2>
THINWIRE_INLINE float LargestOfLanes(V v) {
  v = Larger(v, __builtin_shuffle(v, kTurned<kHalf>));
  if constexpr (kHalf > 1) return LargestOfLanes<kHalf / 2>(v);
  return v[0];
}

// Numbers of the lanes: 0, 1, 2 ...
constexpr VBits kLaneNumbers = kTurned<0>;

constexpr size_t Extent(int64_t count) { return static_cast<size_t>(count); }

}  // namespace
}  // namespace thinwire::kernels::THINWIRE_ISA
