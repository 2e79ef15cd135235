// Only for rows16-inl.h: 64-bit Arm without the dot product instructions of later versions.
#pragma once

#include <arm_neon.h>

#include "thinwire/blocks/rows16_types-inl.h"

namespace thinwire::blocks::THINWIRE_ISA {
namespace {

constexpr bool kOffsetCodes = false;
constexpr int kPanelTokens = 4;
constexpr bool kFewInRegisters = false;

THINWIRE_INLINE Floats Fma(const Floats& a, const Floats& b, const Floats& c) {
  Floats out;
  for (int p = 0; p < kParts; ++p) out.v[p] = vfmaq_f32(c.v[p], a.v[p], b.v[p]);
  return out;
}

THINWIRE_INLINE void Dot(Ints& sum, const Words& codes, const std::byte* in) {
  int32_t four;
  __builtin_memcpy(&four, in, sizeof(four));
  const int8x16_t activations = vreinterpretq_s8_s32(vdupq_n_s32(four));
  for (int p = 0; p < kParts; ++p) {
    const int8x16_t x = vreinterpretq_s8_u32(codes.v[p]);
    // Products reach 128 * 127, so that their sums in pairs need 32 bits.
    const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(activations));
    const int16x8_t high = vmull_high_s8(x, activations);
    sum.v[p] = vaddq_s32(sum.v[p], vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
  }
}

THINWIRE_INLINE Floats Halves(const std::byte* in) {
  Floats out;
  for (int p = 0; p < kParts; ++p) {
    float16x4_t halves;
    __builtin_memcpy(&halves, in + 8 * p, sizeof(halves));
    out.v[p] = vcvt_f32_f16(halves);
  }
  return out;
}
THINWIRE_INLINE Floats Brains(const std::byte* in) {
  Floats out;
  for (int p = 0; p < kParts; ++p) {
    uint16x4_t halves;
    __builtin_memcpy(&halves, in + 8 * p, sizeof(halves));
    out.v[p] = vreinterpretq_f32_u32(vshll_n_u16(halves, 16));
  }
  return out;
}
THINWIRE_INLINE Ints Bytes(const std::byte* in) {
  const uint8x16_t bytes = vld1q_u8(reinterpret_cast<const uint8_t*>(in));
  const uint16x8_t halves[2] = {vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes)};
  Ints out;
  for (int p = 0; p < kParts; ++p) {
    const uint16x4_t part = p % 2 == 0 ? vget_low_u16(halves[p / 2]) : vget_high_u16(halves[p / 2]);
    out.v[p] = vreinterpretq_s32_u32(vmovl_u16(part));
  }
  return out;
}

THINWIRE_INLINE Words Lookup(const uint8_t (&table)[16], Words x) {
  const uint8x16_t entries = vld1q_u8(table);
  for (int p = 0; p < kParts; ++p) {
    x.v[p] = vreinterpretq_u32_u8(vqtbl1q_u8(entries, vreinterpretq_u8_u32(x.v[p])));
  }
  return x;
}

}  // namespace
}  // namespace thinwire::blocks::THINWIRE_ISA
