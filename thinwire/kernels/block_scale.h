// The scale of a block of codes: how it is derived from the block and how it is read. Part of the
// wire format that quantize.h describes; the same source serves every instruction set and CUDA.
#pragma once

#include <cstdint>

#include "thinwire/base/dtype.h"

namespace thinwire::kernels {

enum class CodeType : uint8_t { kInt8, kInt4, kInt3, kTernary };

// The largest magnitude of a code; int4 and int3 reach it on the negative side only.
template <CodeType kCode>
constexpr int kCodeReach = kCode == CodeType::kInt8   ? 127
                           : kCode == CodeType::kInt4 ? 8
                           : kCode == CodeType::kInt3 ? 4
                                                      : 1;

// Magnitudes of bf16 scales, as bits. From 2^-125 on no product of a scale and a code other than 0
// is subnormal, nor a reciprocal, and every subnormal element is below half a scale: a mode that
// flushes subnormals, set by somebody else, changes nothing. Up to the largest a code times its
// scale is finite: 127 x (1 + 1/128) x 2^121 and 2^k x (2 - 1/128) x 2^(127 - k) are below 2^128,
// which the next bf16 is not.
constexpr uint32_t kLeastScale = 0x0100;
constexpr uint32_t kLargestInt8Scale = 0x7c01;
constexpr uint32_t kLargestInt4Scale = 0x7dff;
constexpr uint32_t kLargestInt3Scale = 0x7e7f;
constexpr uint32_t kLargestTernaryScale = 0x7f7f;
constexpr uint16_t kNanScale = 0x7fc0;

template <CodeType kCode>
constexpr uint32_t kLargestScale = kCode == CodeType::kInt8   ? kLargestInt8Scale
                                   : kCode == CodeType::kInt4 ? kLargestInt4Scale
                                   : kCode == CodeType::kInt3 ? kLargestInt3Scale
                                                              : kLargestTernaryScale;

// The element of largest magnitude of a block, in one number that the largest wins: the bits of the
// magnitude, then 1 if it is positive (which wins against the same magnitude negative). Bits of NaN
// are above those of inf, those above all numbers.
THINWIRE_INLINE constexpr uint32_t ExtremeKey(uint32_t bits) { return (bits << 1) | (~bits >> 31); }

struct BlockScale {
  uint16_t bits;  // as sent
  float inverse;  // a code is the nearest integer to element * inverse; 0 where all codes are 0
};

template <CodeType kCode>
THINWIRE_INLINE constexpr BlockScale ScaleOfBlock(uint32_t extreme_key) {
  const uint32_t magnitude = extreme_key >> 1;
  if (magnitude >= 0x7f800000u) return {kNanScale, 0};
  if (magnitude == 0) return {0, 0};
  const float extreme = __builtin_bit_cast(float, magnitude);
  const float exact = kCode == CodeType::kInt8 ? extreme / 127.0f : extreme * 0.125f;
  uint32_t bits = (__builtin_bit_cast(uint32_t, exact) + 0xffffu) >> 16;  // to bf16, upwards
  bits = bits < kLeastScale ? kLeastScale : bits;
  bits = bits > kLargestScale<kCode> ? kLargestScale<kCode> : bits;
  if (kCode == CodeType::kInt4) bits |= (extreme_key & 1u) << 15;
  return {static_cast<uint16_t>(bits), 1.0f / __builtin_bit_cast(float, bits << 16)};
}

// A scale for codes that are bounded by their range: `reach` is what the code of largest magnitude
// stands for, finite or inf from overflow. int4 and int3 have the sign of ScaleOfBlock.
template <CodeType kCode>
THINWIRE_INLINE constexpr BlockScale ClippedScale(uint32_t extreme_key, float reach) {
  static_assert(kCode != CodeType::kInt8, "127 is no power of two");
  const uint32_t magnitude = extreme_key >> 1;
  if (magnitude >= 0x7f800000u) return {kNanScale, 0};
  if (magnitude == 0) return {0, 0};
  const float exact = reach * (1.0f / kCodeReach<kCode>);
  uint32_t bits = (__builtin_bit_cast(uint32_t, exact) + 0xffffu) >> 16;  // to bf16, upwards
  bits = bits < kLeastScale ? kLeastScale : bits;
  bits = bits > kLargestScale<kCode> ? kLargestScale<kCode> : bits;
  if (kCode != CodeType::kTernary) bits |= (extreme_key & 1u) << 15;
  return {static_cast<uint16_t>(bits), 1.0f / __builtin_bit_cast(float, bits << 16)};
}

// What codes are multiplied with: the scale, or NaN for one that ScaleOfBlock never gives.
template <CodeType kCode>
THINWIRE_INLINE constexpr float ScaleFactor(uint16_t bits) {
  const uint32_t magnitude = bits & 0x7fffu;
  const bool known =
      magnitude == 0 || (magnitude >= kLeastScale && magnitude <= kLargestScale<kCode>);
  return ToFloat(BF16{known ? bits : kNanScale});
}

}  // namespace thinwire::kernels
