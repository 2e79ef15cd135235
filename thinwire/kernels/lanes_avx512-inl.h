// Only for lanes-inl.h: AVX-512 F, BW, DQ, VL and BF16.
#pragma once

// GCC 12 warns of the operand that its own intrinsics leave undefined (its bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

using Vector = __m512;
struct Group {
  Vector v[2];
};

THINWIRE_INLINE __m128i Load128(const std::byte* in) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i_u*>(in));
}
THINWIRE_INLINE __m256i Load256(const std::byte* in) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(in));
}
THINWIRE_INLINE void Store128(std::byte* out, __m128i x) {
  _mm_storeu_si128(reinterpret_cast<__m128i_u*>(out), x);
}
THINWIRE_INLINE void Store256(std::byte* out, __m256i x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(out), x);
}

THINWIRE_INLINE Group Load(F32Elements, const std::byte* in) {
  return {{_mm512_loadu_ps(in), _mm512_loadu_ps(in + 64)}};
}
THINWIRE_INLINE Group Load(BF16Elements, const std::byte* in) {
  const auto load = [](const std::byte* p) __attribute__((always_inline)) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(Load256(p)), 16));
  };
  return {{load(in), load(in + 32)}};
}
THINWIRE_INLINE Group Load(FP16Elements, const std::byte* in) {
  return {{_mm512_cvtph_ps(Load256(in)), _mm512_cvtph_ps(Load256(in + 32))}};
}

THINWIRE_INLINE void Store(F32Elements, std::byte* out, const Group& x) {
  _mm512_storeu_ps(out, x.v[0]);
  _mm512_storeu_ps(out + 64, x.v[1]);
}
THINWIRE_INLINE void Store(BF16Elements, std::byte* out, const Group& x) {
  const __m512bh both = _mm512_cvtne2ps_pbh(x.v[1], x.v[0]);
  _mm512_storeu_si512(out, __builtin_bit_cast(__m512i, both));
}
THINWIRE_INLINE void Store(FP16Elements, std::byte* out, const Group& x) {
  for (int k = 0; k < 2; ++k) {
    Store256(out + 32 * k, _mm512_cvtps_ph(x.v[k], _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
}

// As signed integers the bits of the largest positive number win, as unsigned ones those of the
// most negative number.
class Extremes {
 public:
  THINWIRE_INLINE void Add(const Group& x) {
    for (int k = 0; k < 2; ++k) {
      const __m512i bits = _mm512_castps_si512(x.v[k]);
      positive_[k] = _mm512_max_epi32(positive_[k], bits);
      negative_[k] = _mm512_max_epu32(negative_[k], bits);
    }
  }
  THINWIRE_INLINE uint32_t Key() const {
    const __m512i positive = _mm512_max_epi32(positive_[0], positive_[1]);
    const __m512i negative = _mm512_max_epu32(negative_[0], negative_[1]);
    // 2 |x| + 1 of positive numbers; 2 |x| of negative ones, and no matter what of lanes without
    // any, for the positive number there is as large.
    const __m512i keys =
        _mm512_max_epu32(_mm512_sub_epi32(_mm512_slli_epi32(positive, 1), _mm512_set1_epi32(-1)),
                         _mm512_slli_epi32(negative, 1));
    const __m256i half =
        _mm256_max_epu32(_mm512_castsi512_si256(keys), _mm512_extracti64x4_epi64(keys, 1));
    __m128i key = _mm_max_epu32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    key = _mm_max_epu32(key, _mm_shuffle_epi32(key, 0x4e));
    key = _mm_max_epu32(key, _mm_shuffle_epi32(key, 0xb1));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(key));
  }

 private:
  __m512i positive_[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
  __m512i negative_[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
};

THINWIRE_INLINE void StoreInt8(std::byte* out, const Group& x) {
  Store128(out, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x.v[0])));
  Store128(out + 16, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x.v[1])));
}

THINWIRE_INLINE void StoreInt4(std::byte* out, const Group& x) {
  // In each 64 bits: the even code's lower four, above them the odd code's, which lie 28 higher.
  const auto pack = [](__m512 v) __attribute__((always_inline)) {
    const __m512i codes = _mm512_min_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(7));
    const __m512i pairs = _mm512_ternarylogic_epi64(
        _mm512_set1_epi64(15), codes, _mm512_srli_epi64(codes, 28), 0xca);  // mask ? b : c
    return _mm512_cvtepi64_epi8(pairs);
  };
  Store128(out, _mm_unpacklo_epi64(pack(x.v[0]), pack(x.v[1])));
}

THINWIRE_INLINE void RoundedBytes(const Group& x, Bytes32& out) {
  out =
      reinterpret_cast<Bytes32>(_mm256_set_m128i(_mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x.v[1])),
                                                 _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x.v[0]))));
}

class Int8Decoder {
 public:
  Int8Decoder() = default;
  THINWIRE_INLINE explicit Int8Decoder(float factor) : factor_(factor) {}
  THINWIRE_INLINE Group Decode(const std::byte* in) const {
    const auto decode = [&](const std::byte* p) __attribute__((always_inline)) {
      return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(Load128(p))) * factor_;
    };
    return {{decode(in), decode(in + 16)}};
  }

 private:
  float factor_;
};

THINWIRE_INLINE Group Widened(const Bytes32& codes, float factor) {
  const __m256i bytes = reinterpret_cast<__m256i>(codes);
  const auto widen = [&](__m128i half) __attribute__((always_inline)) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(half)) * factor;
  };
  return {{widen(_mm256_castsi256_si128(bytes)), widen(_mm256_extracti128_si256(bytes, 1))}};
}

// The 16 values of a block, looked up.
class Int4Decoder {
 public:
  Int4Decoder() = default;
  THINWIRE_INLINE explicit Int4Decoder(float factor)
      : values_(_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1) * factor) {}
  THINWIRE_INLINE Group Decode(const std::byte* in) const {
    const __m512i words = _mm512_broadcast_i32x4(Load128(in));
    const __m512i shifts =
        _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    // Eight codes in every lane: shift the lane's own down, look up by the lower four bits.
    const auto decode = [&](__m512i lanes) __attribute__((always_inline)) {
      return _mm512_permutexvar_ps(
          _mm512_srlv_epi32(_mm512_permutexvar_epi32(lanes, words), shifts), values_);
    };
    return {{decode(_mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1)),
             decode(_mm512_setr_epi32(2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3))}};
  }

 private:
  __m512 values_;
};

THINWIRE_INLINE Group Rounded(Group x) {
  for (Vector& v : x.v) {
    v = _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  return x;
}

THINWIRE_INLINE Group Bounded(Group x, float low, float high) {
  for (Vector& v : x.v) {
    v = _mm512_min_ps(_mm512_max_ps(v, _mm512_set1_ps(low)), _mm512_set1_ps(high));
  }
  return x;
}

THINWIRE_INLINE Group Canonical(Group x) {
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000));
  for (Vector& v : x.v) v = _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan);
  return x;
}

// Products with 1 and -1 are exact, so a fused addition rounds as any other.
template <int kStride>
THINWIRE_INLINE Vector Butterfly(Vector x) {
  if constexpr (kStride == 1) {
    const Vector signs = _mm512_setr_ps(1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1);
    return _mm512_fmadd_ps(x, signs, _mm512_permute_ps(x, 0xb1));
  }
  if constexpr (kStride == 2) {
    const Vector signs = _mm512_setr_ps(1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1);
    return _mm512_fmadd_ps(x, signs, _mm512_permute_ps(x, 0x4e));
  }
  if constexpr (kStride == 4) {
    const Vector signs = _mm512_setr_ps(1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1);
    return _mm512_fmadd_ps(x, signs, _mm512_shuffle_f32x4(x, x, 0xb1));
  }
  if constexpr (kStride == 8) {
    const Vector signs = _mm512_setr_ps(1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1);
    return _mm512_fmadd_ps(x, signs, _mm512_shuffle_f32x4(x, x, 0x4e));
  }
}

}  // namespace
}  // namespace thinwire::kernels::THINWIRE_ISA
