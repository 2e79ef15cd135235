// How GGUF files lay out weights: one packed struct per block, all little-endian, as ggml's
// reference implementation reads them (ggml-common.h and dequantize_row_* of ggml-quants.c name the
// same fields; GGUF's specification has none of this).
//
// Of `elements` w[0..] of a block, a code q is stored for each:
//   Q4_0, Q5_0   w = scale * (q - 8 or 16)        Q4_1, Q5_1  w = scale * q + min
//   Q8_0         w = scale * q
//   IQ4_NL       w = scale * kIQ4_NLValues[q]     MXFP4       w = 2^(exponent - 128) *
//   kMXFP4Values[q] K types: 256 elements in groups of 16 (Q2_K, Q3_K, Q6_K) or 32 (Q4_K, Q5_K);
//   each group has an integer scale and, in Q2_K, Q4_K and Q5_K, an integer min under the block's
//   two fp16 factors: Q2_K, Q4_K, Q5_K   w = (scale * scales[g]) * q - (min * mins[g]) Q3_K, Q6_K
//   w = (scale * scales[g]) * (q - 4 or 32)
// Products and differences are each rounded to fp32, in the order of the parentheses.
//
// Structs hold at any byte address.
#pragma once

#include <cstdint>

#include "thinwire/base/dtype.h"

namespace thinwire::blocks {

// Elements of the K types' blocks, and of all others' that are blocks at all.
constexpr int kSuperBlock = 256;
constexpr int kSmallBlock = 32;

// codes[j]: element j in the low nibble, element j + 16 in the high one; so in all small blocks.
struct [[gnu::packed]] BlockQ4_0 {
  FP16 scale;
  uint8_t codes[16];
};
struct [[gnu::packed]] BlockQ4_1 {
  FP16 scale;
  FP16 min;
  uint8_t codes[16];
};
// Bit j of `high`, a little-endian word, is bit 4 of element j's code.
struct [[gnu::packed]] BlockQ5_0 {
  FP16 scale;
  uint8_t high[4];
  uint8_t codes[16];
};
struct [[gnu::packed]] BlockQ5_1 {
  FP16 scale;
  FP16 min;
  uint8_t high[4];
  uint8_t codes[16];
};
struct [[gnu::packed]] BlockQ8_0 {
  FP16 scale;
  int8_t codes[32];
};
struct [[gnu::packed]] BlockIQ4_NL {
  FP16 scale;
  uint8_t codes[16];
};
struct [[gnu::packed]] BlockMXFP4 {
  uint8_t exponent;
  uint8_t codes[16];
};

// Element 128 h + 32 s + l (l < 32) has bits 2 s and 2 s + 1 of codes[32 h + l].
struct [[gnu::packed]] BlockQ2_K {
  uint8_t scales[16];  // low nibble the group's scale, high nibble its min
  uint8_t codes[64];
  FP16 scale;
  FP16 min;
};
// The low two bits of a code as in Q2_K; its bit 2 is bit 4 h + s of high[l].
struct [[gnu::packed]] BlockQ3_K {
  uint8_t high[32];
  uint8_t codes[64];
  uint8_t scales[12];  // see Q3_KScale
  FP16 scale;
};
// Element 64 p + l (l < 32) is the low nibble of codes[32 p + l], element 64 p + 32 + l the high
// one.
struct [[gnu::packed]] BlockQ4_K {
  FP16 scale;
  FP16 min;
  uint8_t scales[12];  // see GroupScale, GroupMin
  uint8_t codes[128];
};
// The low four bits of a code as in Q4_K; bit 4 is bit 2 p, or 2 p + 1 for the high nibble's
// element, of high[l].
struct [[gnu::packed]] BlockQ5_K {
  FP16 scale;
  FP16 min;
  uint8_t scales[12];
  uint8_t high[32];
  uint8_t codes[128];
};
// Element 128 h + 32 s + l (l < 32): its low four bits are a nibble of codes[64 h + 32 (s % 2) +
// l], the low one where s < 2; its upper two are bits 2 s and 2 s + 1 of high[32 h + l].
struct [[gnu::packed]] BlockQ6_K {
  uint8_t codes[128];
  uint8_t high[64];
  int8_t scales[16];
  FP16 scale;
};

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22 &&
              sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockIQ4_NL) == 18 &&
              sizeof(BlockMXFP4) == 17);
static_assert(sizeof(BlockQ2_K) == 84 && sizeof(BlockQ3_K) == 110 && sizeof(BlockQ4_K) == 144 &&
              sizeof(BlockQ5_K) == 176 && sizeof(BlockQ6_K) == 210);

constexpr int8_t kIQ4_NLValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
// Twice the values of E2M1, hence exponent - 128 and not - 127.
constexpr int8_t kMXFP4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 2^(exponent - 128); of the exponents 0 and 1 that is subnormal. 255, NaN by OCP's rule, is 2^127
// as in ggml.
THINWIRE_INLINE constexpr float MXFP4Scale(uint8_t exponent) {
  const uint32_t normal = (uint32_t{exponent} - 1u) << 23;
  return __builtin_bit_cast(
      float, Select(exponent < 2, 0x00200000u << (exponent & 1), normal & 0x7fffffffu));
}

// The 6 bits of group g, 0 <= g < 8, of Q4_K and Q5_K. Groups 0 to 3 have theirs whole in the first
// eight bytes; of the others the low four bits lie in the last four bytes and the upper two on top
// of the bytes of group g - 4.
THINWIRE_INLINE constexpr uint8_t GroupScale(const uint8_t (&scales)[12], int g) {
  return static_cast<uint8_t>(g < 4 ? scales[g] & 63
                                    : (scales[g + 4] & 15) | ((scales[g - 4] >> 6) << 4));
}
THINWIRE_INLINE constexpr uint8_t GroupMin(const uint8_t (&scales)[12], int g) {
  return static_cast<uint8_t>(g < 4 ? scales[g + 4] & 63
                                    : (scales[g + 4] >> 4) | ((scales[g] >> 6) << 4));
}
// The reverse, for all eight groups; values < 64.
THINWIRE_INLINE constexpr void PackGroups(const uint8_t (&group_scales)[8],
                                          const uint8_t (&group_mins)[8], uint8_t (&scales)[12]) {
  for (int g = 0; g < 4; ++g) {
    scales[g] = static_cast<uint8_t>(group_scales[g] | ((group_scales[g + 4] >> 4) << 6));
    scales[g + 4] = static_cast<uint8_t>(group_mins[g] | ((group_mins[g + 4] >> 4) << 6));
    scales[g + 8] = static_cast<uint8_t>((group_scales[g + 4] & 15) | (group_mins[g + 4] << 4));
  }
}

// The scale of group g, 0 <= g < 16, of Q3_K, -32..31: 6 bits with an offset of 32, the low four a
// nibble of the first eight bytes, the upper two in the last four.
THINWIRE_INLINE constexpr int8_t Q3_KScale(const uint8_t (&scales)[12], int g) {
  const int low = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;
  const int high = (scales[8 + g % 4] >> (2 * (g / 4))) & 3;
  return static_cast<int8_t>((low | (high << 4)) - 32);
}
THINWIRE_INLINE constexpr void PackQ3_KScales(const int8_t (&group_scales)[16],
                                              uint8_t (&scales)[12]) {
  for (int b = 0; b < 12; ++b) scales[b] = 0;
  for (int g = 0; g < 16; ++g) {
    const int code = group_scales[g] + 32;
    const int low = g < 8 ? code & 15 : (code & 15) << 4;
    scales[g % 8] = static_cast<uint8_t>(scales[g % 8] | low);
    scales[8 + g % 4] = static_cast<uint8_t>(scales[8 + g % 4] | ((code >> 4) << (2 * (g / 4))));
  }
}

}  // namespace thinwire::blocks
