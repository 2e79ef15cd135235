// Only for entropy_isa.cc: see entropy_lane-inl.h.
#pragma once

// GCC 12 warns of the operand that its own intrinsics leave undefined (its bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include "thinwire/kernels/entropy_lane-inl.h"

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

struct States {
  __m512i half[2];
};

THINWIRE_INLINE States LoadStates(const uint32_t* lanes) {
  return {{_mm512_loadu_si512(lanes), _mm512_loadu_si512(lanes + 16)}};
}
THINWIRE_INLINE void StoreStates(const States& states, uint32_t* lanes) {
  _mm512_storeu_si512(lanes, states.half[0]);
  _mm512_storeu_si512(lanes + 16, states.half[1]);
}

// A word of each state in `mask`, in order.
THINWIRE_INLINE void WriteWords(__mmask16 mask, __m512i states, std::byte*& out) {
  const __m512i packed = _mm512_maskz_compress_epi32(mask, states);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_cvtepi32_epi16(packed));
  out += 2 * __builtin_popcount(mask);
}

THINWIRE_INLINE __m512i Encoded(const uint32_t* encoder, const uint8_t* in, __m512i state,
                                std::byte*& out) {
  const __m512i symbols =
      _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in)));
  const __m512i entries = _mm512_i32gather_epi32(symbols, encoder, 4);
  const __m512i frequency = _mm512_and_si512(entries, _mm512_set1_epi32(0xffff));
  const __mmask16 full = _mm512_cmpge_epu32_mask(state, _mm512_slli_epi32(frequency, 19));
  WriteWords(full, state, out);
  state = _mm512_mask_srli_epi32(state, full, state, 16);
  // The quotient is below 2^19, so after three roundings of fp32 it is wrong by less than 1.
  __m512i quotient =
      _mm512_cvttps_epi32(_mm512_div_ps(_mm512_cvtepi32_ps(state), _mm512_cvtepi32_ps(frequency)));
  __m512i rest = _mm512_sub_epi32(state, _mm512_mullo_epi32(quotient, frequency));
  const __m512i one = _mm512_set1_epi32(1);
  const __mmask16 above = _mm512_cmplt_epi32_mask(rest, _mm512_setzero_si512());
  quotient = _mm512_mask_sub_epi32(quotient, above, quotient, one);
  rest = _mm512_mask_add_epi32(rest, above, rest, frequency);
  const __mmask16 below = _mm512_cmpge_epi32_mask(rest, frequency);
  quotient = _mm512_mask_add_epi32(quotient, below, quotient, one);
  rest = _mm512_mask_sub_epi32(rest, below, rest, frequency);
  return _mm512_add_epi32(_mm512_slli_epi32(quotient, kFrequencyBits),
                          _mm512_add_epi32(rest, _mm512_srli_epi32(entries, 16)));
}

THINWIRE_INLINE void EncodeGroup(const uint32_t* encoder, const uint8_t* in, States& states,
                                 std::byte*& out) {
  states.half[0] = Encoded(encoder, in, states.half[0], out);
  states.half[1] = Encoded(encoder, in + 16, states.half[1], out);
}

THINWIRE_INLINE bool DecodeHalf(const uint32_t* decoder, const std::byte* begin, __m512i& state,
                                const std::byte*& at, uint8_t* out) {
  const __m512i slots = _mm512_and_si512(state, _mm512_set1_epi32(kSlotMask));
  const __m512i entries = _mm512_i32gather_epi32(slots, decoder, 4);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtepi32_epi8(entries));
  const __m512i frequency =
      _mm512_and_si512(_mm512_srli_epi32(entries, 8), _mm512_set1_epi32(0xfff));
  state = _mm512_add_epi32(_mm512_mullo_epi32(frequency, _mm512_srli_epi32(state, kFrequencyBits)),
                           _mm512_srli_epi32(entries, 20));
  const __mmask16 empty =
      _mm512_cmplt_epu32_mask(state, _mm512_set1_epi32(static_cast<int32_t>(kLeastState)));
  const int64_t bytes = 2 * __builtin_popcount(empty);
  if (at - begin < bytes) return false;
  at -= bytes;
  const __m512i words =
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  state = _mm512_mask_or_epi32(state, empty, _mm512_slli_epi32(state, 16),
                               _mm512_maskz_expand_epi32(empty, words));
  return true;
}

THINWIRE_INLINE bool DecodeGroup(const uint32_t* decoder, const std::byte* begin, States& states,
                                 const std::byte*& at, uint8_t* out) {
  return DecodeHalf(decoder, begin, states.half[1], at, out + 16) &&
         DecodeHalf(decoder, begin, states.half[0], at, out);
}

}  // namespace
}  // namespace thinwire::kernels::THINWIRE_ISA
