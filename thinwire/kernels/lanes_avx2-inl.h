// Only for lanes-inl.h: AVX2 with F16C.
#pragma once

#include <immintrin.h>

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

using Vector = __m256;
struct Group {
  Vector v[4];
};

THINWIRE_INLINE __m128i Load128(const std::byte* in) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i_u*>(in));
}
THINWIRE_INLINE void Store128(std::byte* out, __m128i x) {
  _mm_storeu_si128(reinterpret_cast<__m128i_u*>(out), x);
}
THINWIRE_INLINE void Store256(std::byte* out, __m256i x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(out), x);
}

THINWIRE_INLINE Group Load(F32Elements, const std::byte* in) {
  const float* p = reinterpret_cast<const float*>(in);
  return {{_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8), _mm256_loadu_ps(p + 16),
           _mm256_loadu_ps(p + 24)}};
}
THINWIRE_INLINE Group Load(BF16Elements, const std::byte* in) {
  Group x;
  for (int k = 0; k < 4; ++k) {
    x.v[k] =
        _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(Load128(in + 16 * k)), 16));
  }
  return x;
}
THINWIRE_INLINE Group Load(FP16Elements, const std::byte* in) {
  Group x;
  for (int k = 0; k < 4; ++k) x.v[k] = _mm256_cvtph_ps(Load128(in + 16 * k));
  return x;
}

THINWIRE_INLINE void Store(F32Elements, std::byte* out, const Group& x) {
  for (int k = 0; k < 4; ++k) _mm256_storeu_ps(reinterpret_cast<float*>(out) + 8 * k, x.v[k]);
}
// The upper halves of 16 values, rounded to nearest even, in order.
THINWIRE_INLINE __m256i RoundedBF16(__m256 a, __m256 b) {
  const auto rounded = [](__m256 x) __attribute__((always_inline)) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_srli_epi32(
        _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
  };
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(rounded(a), rounded(b)), 0xd8);
}
THINWIRE_INLINE void Store(BF16Elements, std::byte* out, const Group& x) {
  Store256(out, RoundedBF16(x.v[0], x.v[1]));
  Store256(out + 32, RoundedBF16(x.v[2], x.v[3]));
}
THINWIRE_INLINE void Store(FP16Elements, std::byte* out, const Group& x) {
  for (int k = 0; k < 4; ++k) {
    Store128(out + 16 * k, _mm256_cvtps_ph(x.v[k], _MM_FROUND_TO_NEAREST_INT));
  }
}

// As signed integers the bits of the largest positive number win, as unsigned ones those of the
// most negative number.
class Extremes {
 public:
  THINWIRE_INLINE void Add(const Group& x) {
    for (int k = 0; k < 4; ++k) {
      const __m256i bits = _mm256_castps_si256(x.v[k]);
      positive_[k % 2] = _mm256_max_epi32(positive_[k % 2], bits);
      negative_[k % 2] = _mm256_max_epu32(negative_[k % 2], bits);
    }
  }
  THINWIRE_INLINE uint32_t Key() const {
    const __m256i positive = _mm256_max_epi32(positive_[0], positive_[1]);
    const __m256i negative = _mm256_max_epu32(negative_[0], negative_[1]);
    // 2 |x| + 1 of positive numbers; 2 |x| of negative ones, and no matter what of lanes without
    // any, for the positive number there is as large.
    const __m256i keys =
        _mm256_max_epu32(_mm256_sub_epi32(_mm256_slli_epi32(positive, 1), _mm256_set1_epi32(-1)),
                         _mm256_slli_epi32(negative, 1));
    __m128i key = _mm_max_epu32(_mm256_castsi256_si128(keys), _mm256_extracti128_si256(keys, 1));
    key = _mm_max_epu32(key, _mm_shuffle_epi32(key, 0x4e));
    key = _mm_max_epu32(key, _mm_shuffle_epi32(key, 0xb1));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(key));
  }

 private:
  __m256i positive_[2] = {};
  __m256i negative_[2] = {};
};

// 32 rounded values as bytes.
THINWIRE_INLINE __m256i Bytes(const Group& x) {
  const __m256i low = _mm256_packs_epi32(_mm256_cvtps_epi32(x.v[0]), _mm256_cvtps_epi32(x.v[1]));
  const __m256i high = _mm256_packs_epi32(_mm256_cvtps_epi32(x.v[2]), _mm256_cvtps_epi32(x.v[3]));
  // Packing works within halves of a register: it leaves the four groups of four interleaved.
  return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high),
                                     _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

THINWIRE_INLINE void RoundedBytes(const Group& x, Bytes32& out) {
  out = reinterpret_cast<Bytes32>(Bytes(x));
}

THINWIRE_INLINE void StoreInt8(std::byte* out, const Group& x) { Store256(out, Bytes(x)); }

THINWIRE_INLINE void StoreInt4(std::byte* out, const Group& x) {
  const __m256i codes =
      _mm256_and_si256(_mm256_min_epi8(Bytes(x), _mm256_set1_epi8(7)), _mm256_set1_epi8(15));
  // Even code + 16 x odd code, in 16 bits each.
  const __m256i pairs = _mm256_maddubs_epi16(codes, _mm256_set1_epi16(0x1001));
  Store128(out,
           _mm_packus_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1)));
}

class Int8Decoder {
 public:
  Int8Decoder() = default;
  THINWIRE_INLINE explicit Int8Decoder(float factor) : factor_(factor) {}
  THINWIRE_INLINE Group Decode(const std::byte* in) const {
    Group x;
    for (int k = 0; k < 4; ++k) {
      const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i_u*>(in + 8 * k));
      x.v[k] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)) * factor_;
    }
    return x;
  }

 private:
  float factor_;
};

THINWIRE_INLINE Group Widened(const Bytes32& codes, float factor) {
  const __m256i bytes = reinterpret_cast<__m256i>(codes);
  const __m128i halves[2] = {_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)};
  Group x;
  for (int k = 0; k < 2; ++k) {
    x.v[2 * k] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(halves[k])) * factor;
    const __m128i upper = _mm_unpackhi_epi64(halves[k], halves[k]);
    x.v[2 * k + 1] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(upper)) * factor;
  }
  return x;
}

class Int4Decoder {
 public:
  Int4Decoder() = default;
  THINWIRE_INLINE explicit Int4Decoder(float factor) : factor_(factor) {}
  THINWIRE_INLINE Group Decode(const std::byte* in) const {
    Group x;
    for (int k = 0; k < 4; ++k) {
      // Eight codes in every lane: shift the lane's own to the top and back.
      const __m256i word =
          _mm256_set1_epi32(static_cast<int32_t>(reinterpret_cast<const Word32*>(in)[k]));
      const __m256i top = _mm256_sllv_epi32(word, _mm256_setr_epi32(28, 24, 20, 16, 12, 8, 4, 0));
      x.v[k] = _mm256_cvtepi32_ps(_mm256_srai_epi32(top, 28)) * factor_;
    }
    return x;
  }

 private:
  float factor_;
};

THINWIRE_INLINE Group Rounded(Group x) {
  for (Vector& v : x.v) v = _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return x;
}

THINWIRE_INLINE Group Bounded(Group x, float low, float high) {
  for (Vector& v : x.v) {
    v = _mm256_min_ps(_mm256_max_ps(v, _mm256_set1_ps(low)), _mm256_set1_ps(high));
  }
  return x;
}

THINWIRE_INLINE Group Canonical(Group x) {
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
  for (Vector& v : x.v) v = _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  return x;
}

// Products with 1 and -1 are exact, so a fused addition rounds as any other.
template <int kStride>
THINWIRE_INLINE Vector Butterfly(Vector x) {
  if constexpr (kStride == 1) {
    const Vector signs = _mm256_setr_ps(1, -1, 1, -1, 1, -1, 1, -1);
    return _mm256_fmadd_ps(x, signs, _mm256_permute_ps(x, 0xb1));
  }
  if constexpr (kStride == 2) {
    const Vector signs = _mm256_setr_ps(1, 1, -1, -1, 1, 1, -1, -1);
    return _mm256_fmadd_ps(x, signs, _mm256_permute_ps(x, 0x4e));
  }
  if constexpr (kStride == 4) {
    const Vector signs = _mm256_setr_ps(1, 1, 1, 1, -1, -1, -1, -1);
    return _mm256_fmadd_ps(x, signs, _mm256_permute2f128_ps(x, x, 0x01));
  }
}

}  // namespace
}  // namespace thinwire::kernels::THINWIRE_ISA
