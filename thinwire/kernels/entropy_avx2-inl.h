// Only for entropy_isa.cc: see entropy_lane-inl.h.
#pragma once

#include <immintrin.h>

#include "thinwire/kernels/entropy_lane-inl.h"

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

constexpr int kVectors = 4;

struct States {
  __m256i part[kVectors];
};

THINWIRE_INLINE States LoadStates(const uint32_t* lanes) {
  States states;
  for (int k = 0; k < kVectors; ++k) {
    states.part[k] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lanes) + k);
  }
  return states;
}
THINWIRE_INLINE void StoreStates(const States& states, uint32_t* lanes) {
  for (int k = 0; k < kVectors; ++k) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes) + k, states.part[k]);
  }
}

// By mask: the lanes in it, in order; and for each lane in it, how many of them are before.
struct LaneOrders {
  uint8_t packed[256][8];
  uint8_t spread[256][8];
};
constexpr LaneOrders MakeLaneOrders() {
  LaneOrders orders = {};
  for (int mask = 0; mask < 256; ++mask) {
    uint8_t count = 0;
    for (uint8_t lane = 0; lane < 8; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      orders.spread[mask][lane] = count;
      orders.packed[mask][count++] = lane;
    }
  }
  return orders;
}
constexpr LaneOrders kLaneOrders = MakeLaneOrders();

THINWIRE_INLINE __m256i Order(const uint8_t* lanes) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(lanes)));
}

THINWIRE_INLINE __m256i IsBelow(__m256i x, __m256i bound) {  // unsigned
  return _mm256_xor_si256(_mm256_cmpeq_epi32(_mm256_max_epu32(x, bound), x), _mm256_set1_epi32(-1));
}

THINWIRE_INLINE int MaskOf(__m256i lanes) { return _mm256_movemask_ps(_mm256_castsi256_ps(lanes)); }

THINWIRE_INLINE void WriteWords(int mask, __m256i states, std::byte*& out) {
  const __m256i words =
      _mm256_and_si256(_mm256_permutevar8x32_epi32(states, Order(kLaneOrders.packed[mask])),
                       _mm256_set1_epi32(0xffff));
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(out),
      _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  out += 2 * __builtin_popcount(static_cast<unsigned>(mask));
}

THINWIRE_INLINE __m256i Encoded(const uint32_t* encoder, const uint8_t* in, __m256i state,
                                std::byte*& out) {
  const __m256i entries =
      _mm256_i32gather_epi32(reinterpret_cast<const int*>(encoder), Order(in), 4);
  const __m256i frequency = _mm256_and_si256(entries, _mm256_set1_epi32(0xffff));
  const __m256i small = IsBelow(state, _mm256_slli_epi32(frequency, 19));
  WriteWords(MaskOf(small) ^ 255, state, out);
  state = _mm256_blendv_epi8(_mm256_srli_epi32(state, 16), state, small);
  // The quotient is below 2^19, so after three roundings of fp32 it is wrong by less than 1.
  __m256i quotient =
      _mm256_cvttps_epi32(_mm256_div_ps(_mm256_cvtepi32_ps(state), _mm256_cvtepi32_ps(frequency)));
  __m256i rest = _mm256_sub_epi32(state, _mm256_mullo_epi32(quotient, frequency));
  const __m256i above = _mm256_srai_epi32(rest, 31);
  quotient = _mm256_add_epi32(quotient, above);
  rest = _mm256_add_epi32(rest, _mm256_and_si256(above, frequency));
  const __m256i within = _mm256_cmpgt_epi32(frequency, rest);
  quotient = _mm256_add_epi32(quotient, _mm256_andnot_si256(within, _mm256_set1_epi32(1)));
  rest = _mm256_sub_epi32(rest, _mm256_andnot_si256(within, frequency));
  return _mm256_add_epi32(_mm256_slli_epi32(quotient, kFrequencyBits),
                          _mm256_add_epi32(rest, _mm256_srli_epi32(entries, 16)));
}

THINWIRE_INLINE void EncodeGroup(const uint32_t* encoder, const uint8_t* in, States& states,
                                 std::byte*& out) {
  for (int k = 0; k < kVectors; ++k) {
    states.part[k] = Encoded(encoder, in + 8 * k, states.part[k], out);
  }
}

THINWIRE_INLINE bool DecodePart(const uint32_t* decoder, const std::byte* begin, __m256i& state,
                                const std::byte*& at, __m256i& entries) {
  const __m256i slots = _mm256_and_si256(state, _mm256_set1_epi32(kSlotMask));
  entries = _mm256_i32gather_epi32(reinterpret_cast<const int*>(decoder), slots, 4);
  const __m256i frequency =
      _mm256_and_si256(_mm256_srli_epi32(entries, 8), _mm256_set1_epi32(0xfff));
  state = _mm256_add_epi32(_mm256_mullo_epi32(frequency, _mm256_srli_epi32(state, kFrequencyBits)),
                           _mm256_srli_epi32(entries, 20));
  const __m256i empty = IsBelow(state, _mm256_set1_epi32(static_cast<int32_t>(kLeastState)));
  const int mask = MaskOf(empty);
  const int64_t bytes = 2 * __builtin_popcount(static_cast<unsigned>(mask));
  if (at - begin < bytes) return false;
  at -= bytes;
  const __m256i words =
      _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  const __m256i filled =
      _mm256_or_si256(_mm256_slli_epi32(state, 16),
                      _mm256_permutevar8x32_epi32(words, Order(kLaneOrders.spread[mask])));
  state = _mm256_blendv_epi8(state, filled, empty);
  return true;
}

THINWIRE_INLINE bool DecodeGroup(const uint32_t* decoder, const std::byte* begin, States& states,
                                 const std::byte*& at, uint8_t* out) {
  __m256i symbols[kVectors];
  for (int k = kVectors - 1; k >= 0; --k) {
    if (!DecodePart(decoder, begin, states.part[k], at, symbols[k])) return false;
    symbols[k] = _mm256_and_si256(symbols[k], _mm256_set1_epi32(0xff));
  }
  const __m256i bytes = _mm256_packus_epi16(_mm256_packus_epi32(symbols[0], symbols[1]),
                                            _mm256_packus_epi32(symbols[2], symbols[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permutevar8x32_epi32(bytes, order));
  return true;
}

}  // namespace
}  // namespace thinwire::kernels::THINWIRE_ISA
