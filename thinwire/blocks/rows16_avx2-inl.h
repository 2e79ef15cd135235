// Only for rows16-inl.h: AVX2, FMA, F16C.
#pragma once

#include <immintrin.h>

#include "thinwire/blocks/rows16_types-inl.h"

namespace thinwire::blocks::THINWIRE_ISA {
namespace {

constexpr bool kOffsetCodes = false;
constexpr int kPanelTokens = 4;
constexpr bool kFewInRegisters = false;

THINWIRE_INLINE Floats Fma(const Floats& a, const Floats& b, const Floats& c) {
  return {{_mm256_fmadd_ps(a.v[0], b.v[0], c.v[0]), _mm256_fmadd_ps(a.v[1], b.v[1], c.v[1])}};
}

// The signs go to the activations, whose magnitude is below 128: sums of two products with
// magnitudes up to 128 fit 16 bits.
THINWIRE_INLINE void Dot(Ints& sum, const Words& codes, const std::byte* in) {
  int32_t four;
  __builtin_memcpy(&four, in, sizeof(four));
  const __m256i activations = _mm256_set1_epi32(four);
  for (int p = 0; p < kParts; ++p) {
    const __m256i x = reinterpret_cast<__m256i>(codes.v[p]);
    const __m256i pairs =
        _mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(activations, x));
    const __m256i products = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    sum.v[p] += reinterpret_cast<NativeInts>(products);
  }
}

THINWIRE_INLINE __m128i Load128(const std::byte* in) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i_u*>(in));
}
THINWIRE_INLINE Floats Halves(const std::byte* in) {
  return {{_mm256_cvtph_ps(Load128(in)), _mm256_cvtph_ps(Load128(in + 16))}};
}
THINWIRE_INLINE Floats Brains(const std::byte* in) {
  const auto widened = [](const std::byte* p) __attribute__((always_inline)) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(Load128(p)), 16));
  };
  return {{widened(in), widened(in + 16)}};
}
THINWIRE_INLINE Ints Bytes(const std::byte* in) {
  const __m128i bytes = Load128(in);
  return {{reinterpret_cast<NativeInts>(_mm256_cvtepu8_epi32(bytes)),
           reinterpret_cast<NativeInts>(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))}};
}

THINWIRE_INLINE Words Lookup(const uint8_t (&table)[16], Words x) {
  const __m256i entries =
      _mm256_broadcastsi128_si256(Load128(reinterpret_cast<const std::byte*>(table)));
  for (int p = 0; p < kParts; ++p) {
    x.v[p] = reinterpret_cast<NativeWords>(
        _mm256_shuffle_epi8(entries, reinterpret_cast<__m256i>(x.v[p])));
  }
  return x;
}

}  // namespace
}  // namespace thinwire::blocks::THINWIRE_ISA
