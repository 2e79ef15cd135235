// Only for lanes-inl.h: Arm's Advanced SIMD as every 64-bit processor has it.
#pragma once

#include <arm_neon.h>

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

using Vector = float32x4_t;
struct Group {
  Vector v[8];
};

THINWIRE_INLINE uint8x16_t LoadBytes(const std::byte* in) {
  return vld1q_u8(reinterpret_cast<const uint8_t*>(in));
}
THINWIRE_INLINE void StoreBytes(std::byte* out, uint8x16_t x) {
  vst1q_u8(reinterpret_cast<uint8_t*>(out), x);
}

THINWIRE_INLINE Group Load(F32Elements, const std::byte* in) {
  Group x;
  for (int k = 0; k < 8; ++k) x.v[k] = vreinterpretq_f32_u8(LoadBytes(in + 16 * k));
  return x;
}
THINWIRE_INLINE Group Load(BF16Elements, const std::byte* in) {
  Group x;
  for (int k = 0; k < 4; ++k) {
    const uint16x8_t halves = vreinterpretq_u16_u8(LoadBytes(in + 16 * k));
    x.v[2 * k] = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(halves), 16));
    x.v[2 * k + 1] = vreinterpretq_f32_u32(vshll_high_n_u16(halves, 16));
  }
  return x;
}
THINWIRE_INLINE Group Load(FP16Elements, const std::byte* in) {
  Group x;
  for (int k = 0; k < 4; ++k) {
    const float16x8_t halves = vreinterpretq_f16_u8(LoadBytes(in + 16 * k));
    x.v[2 * k] = vcvt_f32_f16(vget_low_f16(halves));
    x.v[2 * k + 1] = vcvt_high_f32_f16(halves);
  }
  return x;
}

THINWIRE_INLINE void Store(F32Elements, std::byte* out, const Group& x) {
  for (int k = 0; k < 8; ++k) StoreBytes(out + 16 * k, vreinterpretq_u8_f32(x.v[k]));
}
THINWIRE_INLINE void Store(BF16Elements, std::byte* out, const Group& x) {
  const auto rounded = [](float32x4_t v) __attribute__((always_inline)) {
    const uint32x4_t bits = vreinterpretq_u32_f32(v);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    return vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
  };
  for (int k = 0; k < 4; ++k) {
    const uint16x8_t halves = vuzp2q_u16(vreinterpretq_u16_u32(rounded(x.v[2 * k])),
                                         vreinterpretq_u16_u32(rounded(x.v[2 * k + 1])));
    StoreBytes(out + 16 * k, vreinterpretq_u8_u16(halves));
  }
}
THINWIRE_INLINE void Store(FP16Elements, std::byte* out, const Group& x) {
  for (int k = 0; k < 4; ++k) {
    const float16x8_t halves = vcvt_high_f16_f32(vcvt_f16_f32(x.v[2 * k]), x.v[2 * k + 1]);
    StoreBytes(out + 16 * k, vreinterpretq_u8_f16(halves));
  }
}

// As signed integers the bits of the largest positive number win, as unsigned ones those of the
// most negative number.
class Extremes {
 public:
  THINWIRE_INLINE void Add(const Group& x) {
    for (const Vector v : x.v) {
      positive_ = vmaxq_s32(positive_, vreinterpretq_s32_f32(v));
      negative_ = vmaxq_u32(negative_, vreinterpretq_u32_f32(v));
    }
  }
  THINWIRE_INLINE uint32_t Key() const {
    // 2 |x| + 1 of positive numbers; 2 |x| of negative ones, and no matter what of lanes without
    // any, for the positive number there is as large.
    const uint32x4_t positive =
        vaddq_u32(vshlq_n_u32(vreinterpretq_u32_s32(positive_), 1), vdupq_n_u32(1));
    return vmaxvq_u32(vmaxq_u32(positive, vshlq_n_u32(negative_, 1)));
  }

 private:
  int32x4_t positive_ = vdupq_n_s32(0);
  uint32x4_t negative_ = vdupq_n_u32(0);
};

// 16 rounded values as bytes.
THINWIRE_INLINE int8x16_t Bytes(const Vector* v) {
  const auto halves = [](Vector a, Vector b) __attribute__((always_inline)) {
    return vmovn_high_s32(vmovn_s32(vcvtnq_s32_f32(a)), vcvtnq_s32_f32(b));
  };
  return vmovn_high_s16(vmovn_s16(halves(v[0], v[1])), halves(v[2], v[3]));
}

THINWIRE_INLINE void StoreInt8(std::byte* out, const Group& x) {
  StoreBytes(out, vreinterpretq_u8_s8(Bytes(x.v)));
  StoreBytes(out + 16, vreinterpretq_u8_s8(Bytes(x.v + 4)));
}

THINWIRE_INLINE void StoreInt4(std::byte* out, const Group& x) {
  const uint8x16_t low = vreinterpretq_u8_s8(vminq_s8(Bytes(x.v), vdupq_n_s8(7)));
  const uint8x16_t high = vreinterpretq_u8_s8(vminq_s8(Bytes(x.v + 4), vdupq_n_s8(7)));
  // Even codes with the odd ones shifted in above.
  StoreBytes(out, vsliq_n_u8(vuzp1q_u8(low, high), vuzp2q_u8(low, high), 4));
}

THINWIRE_INLINE void RoundedBytes(const Group& x, Bytes32& out) {
  const int8x16_t halves[2] = {Bytes(x.v), Bytes(x.v + 4)};
  __builtin_memcpy(&out, halves, sizeof(out));
}

// 16 codes times `factor`.
THINWIRE_INLINE void Widen(int8x16_t codes, float factor, Vector* v) {
  const int16x8_t low = vmovl_s8(vget_low_s8(codes));
  const int16x8_t high = vmovl_high_s8(codes);
  v[0] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))) * factor;
  v[1] = vcvtq_f32_s32(vmovl_high_s16(low)) * factor;
  v[2] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))) * factor;
  v[3] = vcvtq_f32_s32(vmovl_high_s16(high)) * factor;
}

class Int8Decoder {
 public:
  Int8Decoder() = default;
  THINWIRE_INLINE explicit Int8Decoder(float factor) : factor_(factor) {}
  THINWIRE_INLINE Group Decode(const std::byte* in) const {
    Group x;
    Widen(vreinterpretq_s8_u8(LoadBytes(in)), factor_, x.v);
    Widen(vreinterpretq_s8_u8(LoadBytes(in + 16)), factor_, x.v + 4);
    return x;
  }

 private:
  float factor_;
};

THINWIRE_INLINE Group Widened(const Bytes32& codes, float factor) {
  int8x16_t halves[2];
  __builtin_memcpy(halves, &codes, sizeof(halves));
  Group x;
  Widen(halves[0], factor, x.v);
  Widen(halves[1], factor, x.v + 4);
  return x;
}

class Int4Decoder {
 public:
  Int4Decoder() = default;
  THINWIRE_INLINE explicit Int4Decoder(float factor) : factor_(factor) {}
  THINWIRE_INLINE Group Decode(const std::byte* in) const {
    const int8x16_t bytes = vreinterpretq_s8_u8(LoadBytes(in));
    const int8x16_t even = vshrq_n_s8(vshlq_n_s8(bytes, 4), 4);
    const int8x16_t odd = vshrq_n_s8(bytes, 4);
    Group x;
    Widen(vzip1q_s8(even, odd), factor_, x.v);
    Widen(vzip2q_s8(even, odd), factor_, x.v + 4);
    return x;
  }

 private:
  float factor_;
};

THINWIRE_INLINE Group Rounded(Group x) {
  for (Vector& v : x.v) v = vrndnq_f32(v);
  return x;
}

THINWIRE_INLINE Group Bounded(Group x, float low, float high) {
  for (Vector& v : x.v) v = vminq_f32(vmaxq_f32(v, vdupq_n_f32(low)), vdupq_n_f32(high));
  return x;
}

THINWIRE_INLINE Group Canonical(Group x) {
  const float32x4_t nan = vreinterpretq_f32_u32(vdupq_n_u32(0x7fc00000));
  for (Vector& v : x.v) v = vbslq_f32(vceqq_f32(v, v), v, nan);
  return x;
}

// Products with 1 and -1 are exact, so a fused addition rounds as any other.
template <int kStride>
THINWIRE_INLINE Vector Butterfly(Vector x) {
  if constexpr (kStride == 1) {
    const Vector signs = {1, -1, 1, -1};
    return vfmaq_f32(vrev64q_f32(x), x, signs);
  }
  if constexpr (kStride == 2) {
    const Vector signs = {1, 1, -1, -1};
    return vfmaq_f32(vextq_f32(x, x, 2), x, signs);
  }
}

}  // namespace
}  // namespace thinwire::kernels::THINWIRE_ISA
