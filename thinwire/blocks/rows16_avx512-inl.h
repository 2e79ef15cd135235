// Only for rows16-inl.h: AVX-512 F, BW, DQ, VL, VNNI.
#pragma once

// GCC 12 warns of the operand that its own intrinsics leave undefined (its bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include "thinwire/blocks/rows16_types-inl.h"

namespace thinwire::blocks::THINWIRE_ISA {
namespace {

constexpr bool kOffsetCodes = true;
constexpr int kPanelTokens = 12;
constexpr bool kFewInRegisters = true;

THINWIRE_INLINE Floats Fma(const Floats& a, const Floats& b, const Floats& c) {
  return {{_mm512_fmadd_ps(a.v[0], b.v[0], c.v[0])}};
}

// GCC 12 knows no form of this instruction that broadcasts from memory.
THINWIRE_INLINE void Dot(Ints& sum, const Words& codes, const std::byte* in) {
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(sum.v[0])
      : "v"(codes.v[0]), "m"(*reinterpret_cast<const int32_t(*)>(in)));
}

THINWIRE_INLINE Floats Halves(const std::byte* in) {
  return {{_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(in)))}};
}
THINWIRE_INLINE Floats Brains(const std::byte* in) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(in));
  return {{_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))}};
}
THINWIRE_INLINE Ints Bytes(const std::byte* in) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i_u*>(in));
  return {{reinterpret_cast<NativeInts>(_mm512_cvtepu8_epi32(bytes))}};
}

THINWIRE_INLINE Words Lookup(const uint8_t (&table)[16], const Words& x) {
  const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i_u*>(table));
  return {{reinterpret_cast<NativeWords>(
      _mm512_shuffle_epi8(_mm512_broadcast_i32x4(entries), reinterpret_cast<__m512i>(x.v[0])))}};
}

}  // namespace
}  // namespace thinwire::blocks::THINWIRE_ISA
