// Only for exact_sum-inl.h: AVX-512 with VNNI.
#pragma once

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

constexpr int kVectorLanes = 16;
typedef uint16_t Words __attribute__((vector_size(64)));
typedef int32_t DoubleWords __attribute__((vector_size(64)));

THINWIRE_INLINE Words LoadWords(const std::byte* in) {
  return reinterpret_cast<Words>(_mm512_loadu_si512(in));
}
THINWIRE_INLINE void StoreWords(std::byte* out, Words x) {
  _mm512_storeu_si512(out, reinterpret_cast<__m512i>(x));
}
THINWIRE_INLINE Vector LoadVector(const float* in) { return _mm512_load_ps(in); }
THINWIRE_INLINE void StoreVector(float* out, Vector x) { _mm512_store_ps(out, x); }

THINWIRE_INLINE DoubleWords Splat(int32_t x) {
  return reinterpret_cast<DoubleWords>(_mm512_set1_epi32(x));
}

THINWIRE_INLINE Words InterleavedLow(Words a, Words b) {
  return reinterpret_cast<Words>(
      _mm512_unpacklo_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
THINWIRE_INLINE Words InterleavedHigh(Words a, Words b) {
  return reinterpret_cast<Words>(
      _mm512_unpackhi_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}

// Some bits of each word inverted, and then some of them: here both at once.
template <uint16_t kFlip>
THINWIRE_INLINE Words Flipped(Words words) {
  return words;
}
template <uint16_t kFlip>
THINWIRE_INLINE Words Masked(Words words, uint16_t mask) {
  return reinterpret_cast<Words>(_mm512_ternarylogic_epi32(
      reinterpret_cast<__m512i>(words), _mm512_set1_epi16(kFlip),
      _mm512_set1_epi16(static_cast<int16_t>(mask)), 0x28));  // (a ^ b) & c
}
template <int kBits>
THINWIRE_INLINE Words ShiftedDown(Words words) {
  return reinterpret_cast<Words>(_mm512_srai_epi16(reinterpret_cast<__m512i>(words), kBits));
}

THINWIRE_INLINE DoubleWords PlusProducts(DoubleWords sum, Words words, DoubleWords factors) {
  return reinterpret_cast<DoubleWords>(_mm512_dpwssd_epi32(reinterpret_cast<__m512i>(sum),
                                                           reinterpret_cast<__m512i>(words),
                                                           reinterpret_cast<__m512i>(factors)));
}

THINWIRE_INLINE Vector ToFloats(DoubleWords x) {
  return _mm512_cvtepi32_ps(reinterpret_cast<__m512i>(x));
}

THINWIRE_INLINE Words RoundedWords(Vector low, Vector high) {
  return reinterpret_cast<Words>(
      _mm512_packs_epi32(_mm512_cvtps_epi32(low), _mm512_cvtps_epi32(high)));
}

THINWIRE_INLINE void StoreNibbles(std::byte* out, Words c0, Words c1, Words c2, Words c3) {
  // Of each 16 bytes the first eight are the lower halves of words. Adding 0x78 with saturation
  // leaves 0x70 + 8 + code, of a code of 8 that of 7.
  const auto bytes = [](Words low, Words high) __attribute__((always_inline)) {
    return _mm512_adds_epi8(
        _mm512_packs_epi16(reinterpret_cast<__m512i>(low), reinterpret_cast<__m512i>(high)),
        _mm512_set1_epi8(0x78));
  };
  const __m512i even = bytes(c0, c2), odd = _mm512_slli_epi16(bytes(c1, c3), 4);
  // Digits of a word, from above: (odd + 8) ^ 7, 7 ^ (even + 8) twice, but no 7 in the last.
  const __m512i nibbles = _mm512_ternarylogic_epi32(
      even, odd, _mm512_set1_epi16(static_cast<int16_t>(0xfff8)), 0x96);  // a ^ b ^ c
  const __m128i order = _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
  _mm512_storeu_si512(out, _mm512_shuffle_epi8(nibbles, _mm512_broadcast_i32x4(order)));
}

// The number of largest magnitude in each lane; of +m and -m, +m.
class SignedExtreme {
 public:
  THINWIRE_INLINE void Add(Vector x) { extreme_ = Larger(extreme_, x); }
  THINWIRE_INLINE void Add(const SignedExtreme& other, float factor) {
    Add(other.extreme_ * factor);
  }

  // Lanes of both, kStride apart: lanes without that bit from a, those with it from b.
  template <int kStride>
  THINWIRE_INLINE static SignedExtreme Merged(const SignedExtreme& a, const SignedExtreme& b) {
    constexpr __mmask16 kFromB = kStride == 1   ? 0xaaaa
                                 : kStride == 2 ? 0xcccc
                                 : kStride == 4 ? 0xf0f0
                                                : 0xff00;
    const Vector own = _mm512_mask_mov_ps(a.extreme_, kFromB, b.extreme_);
    Vector other = _mm512_mask_mov_ps(b.extreme_, kFromB, a.extreme_);
    if constexpr (kStride == 1) other = _mm512_permute_ps(other, 0xb1);
    if constexpr (kStride == 2) other = _mm512_permute_ps(other, 0x4e);
    if constexpr (kStride == 4) other = _mm512_shuffle_f32x4(other, other, 0xb1);
    if constexpr (kStride == 8) other = _mm512_shuffle_f32x4(other, other, 0x4e);
    SignedExtreme merged;
    merged.extreme_ = Larger(own, other);
    return merged;
  }
  THINWIRE_INLINE Vector Values() const { return extreme_; }

 private:
  THINWIRE_INLINE static Vector Larger(Vector a, Vector b) {
    return _mm512_range_ps(a, b, 0b0111);  // 01: with its sign, 11: by absolute values
  }

  Vector extreme_ = {};
};

// Lane i: of all lanes of x[i].
THINWIRE_INLINE Vector ExtremeOfEach(const SignedExtreme* x) {
  SignedExtreme pairs[8], fours[4], eights[2];
  for (int i = 0; i < 8; ++i) pairs[i] = SignedExtreme::Merged<1>(x[2 * i], x[2 * i + 1]);
  for (int i = 0; i < 4; ++i) fours[i] = SignedExtreme::Merged<2>(pairs[2 * i], pairs[2 * i + 1]);
  for (int i = 0; i < 2; ++i) eights[i] = SignedExtreme::Merged<4>(fours[2 * i], fours[2 * i + 1]);
  return SignedExtreme::Merged<8>(eights[0], eights[1]).Values();
}

}  // namespace
}  // namespace thinwire::kernels::THINWIRE_ISA
