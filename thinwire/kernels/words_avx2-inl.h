// Only for exact_sum-inl.h: AVX2.
#pragma once

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

constexpr int kVectorLanes = 8;
typedef uint16_t Words __attribute__((vector_size(32)));
typedef int32_t DoubleWords __attribute__((vector_size(32)));

THINWIRE_INLINE Words LoadWords(const std::byte* in) {
  return reinterpret_cast<Words>(_mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(in)));
}
THINWIRE_INLINE void StoreWords(std::byte* out, Words x) {
  Store256(out, reinterpret_cast<__m256i>(x));
}
THINWIRE_INLINE Vector LoadVector(const float* in) { return _mm256_load_ps(in); }
THINWIRE_INLINE void StoreVector(float* out, Vector x) { _mm256_store_ps(out, x); }

THINWIRE_INLINE DoubleWords Splat(int32_t x) {
  return reinterpret_cast<DoubleWords>(_mm256_set1_epi32(x));
}

THINWIRE_INLINE Words InterleavedLow(Words a, Words b) {
  return reinterpret_cast<Words>(
      _mm256_unpacklo_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}
THINWIRE_INLINE Words InterleavedHigh(Words a, Words b) {
  return reinterpret_cast<Words>(
      _mm256_unpackhi_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}

// Some bits of each word inverted, and then some of them: the former costs less before words are
// interleaved, and nothing after it where one instruction does both.
template <uint16_t kFlip>
THINWIRE_INLINE Words Flipped(Words words) {
  return words ^ kFlip;
}
template <uint16_t kFlip>
THINWIRE_INLINE Words Masked(Words words, uint16_t mask) {
  return words & mask;
}
template <int kBits>
THINWIRE_INLINE Words ShiftedDown(Words words) {
  return reinterpret_cast<Words>(_mm256_srai_epi16(reinterpret_cast<__m256i>(words), kBits));
}

THINWIRE_INLINE DoubleWords PlusProducts(DoubleWords sum, Words words, DoubleWords factors) {
  return sum + reinterpret_cast<DoubleWords>(_mm256_madd_epi16(reinterpret_cast<__m256i>(words),
                                                               reinterpret_cast<__m256i>(factors)));
}

THINWIRE_INLINE Vector ToFloats(DoubleWords x) {
  return _mm256_cvtepi32_ps(reinterpret_cast<__m256i>(x));
}

THINWIRE_INLINE Words RoundedWords(Vector low, Vector high) {
  return reinterpret_cast<Words>(
      _mm256_packs_epi32(_mm256_cvtps_epi32(low), _mm256_cvtps_epi32(high)));
}

THINWIRE_INLINE void StoreNibbles(std::byte* out, Words c0, Words c1, Words c2, Words c3) {
  // Of each 16 bytes the first eight are the lower halves of words. Adding 0x78 with saturation
  // leaves 0x70 + 8 + code, of a code of 8 that of 7.
  const auto bytes = [](Words low, Words high) __attribute__((always_inline)) {
    return _mm256_adds_epi8(
        _mm256_packs_epi16(reinterpret_cast<__m256i>(low), reinterpret_cast<__m256i>(high)),
        _mm256_set1_epi8(0x78));
  };
  const __m256i even = bytes(c0, c2), odd = _mm256_slli_epi16(bytes(c1, c3), 4);
  // Digits of a word, from above: (odd + 8) ^ 7, 7 ^ (even + 8) twice, but no 7 in the last.
  const __m256i nibbles = _mm256_xor_si256(_mm256_xor_si256(even, odd),
                                           _mm256_set1_epi16(static_cast<int16_t>(0xfff8)));
  const __m128i order = _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
  Store256(out, _mm256_shuffle_epi8(nibbles, _mm256_broadcastsi128_si256(order)));
}

// The number of largest magnitude in each lane; of +m and -m, +m.
class SignedExtreme {
 public:
  THINWIRE_INLINE void Add(Vector x) {
    most_ = _mm256_max_ps(most_, x);
    least_ = _mm256_min_ps(least_, x);
  }
  THINWIRE_INLINE void Add(const SignedExtreme& other, float factor) {
    most_ = _mm256_max_ps(most_, other.most_ * factor);
    least_ = _mm256_min_ps(least_, other.least_ * factor);
  }

  // Lanes of both, kStride apart: lanes without that bit from a, those with it from b.
  template <int kStride>
  THINWIRE_INLINE static SignedExtreme Merged(const SignedExtreme& a, const SignedExtreme& b) {
    SignedExtreme merged;
    merged.most_ = _mm256_max_ps(Own<kStride>(a.most_, b.most_), Other<kStride>(a.most_, b.most_));
    merged.least_ =
        _mm256_min_ps(Own<kStride>(a.least_, b.least_), Other<kStride>(a.least_, b.least_));
    return merged;
  }
  THINWIRE_INLINE Vector Values() const { return most_ >= -least_ ? most_ : least_; }

 private:
  template <int kStride>
  THINWIRE_INLINE static Vector Own(Vector a, Vector b) {
    return _mm256_blend_ps(a, b, kStride == 1 ? 0xaa : kStride == 2 ? 0xcc : 0xf0);
  }
  template <int kStride>
  THINWIRE_INLINE static Vector Other(Vector a, Vector b) {
    if constexpr (kStride == 4) return _mm256_permute2f128_ps(a, b, 0x21);
    const Vector other = Own<kStride>(b, a);
    return _mm256_permute_ps(other, kStride == 1 ? 0xb1 : 0x4e);
  }

  Vector most_ = {};
  Vector least_ = {};
};

// Lane i: of all lanes of x[i].
THINWIRE_INLINE Vector ExtremeOfEach(const SignedExtreme* x) {
  SignedExtreme pairs[4], fours[2];
  for (int i = 0; i < 4; ++i) pairs[i] = SignedExtreme::Merged<1>(x[2 * i], x[2 * i + 1]);
  for (int i = 0; i < 2; ++i) fours[i] = SignedExtreme::Merged<2>(pairs[2 * i], pairs[2 * i + 1]);
  return SignedExtreme::Merged<4>(fours[0], fours[1]).Values();
}

}  // namespace
}  // namespace thinwire::kernels::THINWIRE_ISA
