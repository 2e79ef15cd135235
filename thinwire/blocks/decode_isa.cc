#include "thinwire/blocks/decode_isa.h"

#include "thinwire/blocks/formats.h"

namespace thinwire::blocks::THINWIRE_ISA {
namespace {

// Calls value(element, code) for the 32 nibbles of a small block, in two loops that vectorize.
template <typename Value>
THINWIRE_INLINE void EachNibble(const uint8_t* codes, float* out, const Value& value) {
  for (int j = 0; j < 16; ++j) out[j] = value(j, codes[j] & 15);
  for (int j = 0; j < 16; ++j) out[16 + j] = value(16 + j, codes[j] >> 4);
}

THINWIRE_INLINE uint32_t Word(const uint8_t (&bytes)[4]) {
  return uint32_t{bytes[0]} | (uint32_t{bytes[1]} << 8) | (uint32_t{bytes[2]} << 16) |
         (uint32_t{bytes[3]} << 24);
}

// Bit j of `high` as bit 4.
THINWIRE_INLINE int FifthBit(uint32_t high, int j) {
  return static_cast<int>(((high >> j) & 1u) << 4);
}

THINWIRE_INLINE void DecodeBlock(const BlockQ4_0& block, float* out) {
  const float scale = ToFloat(block.scale);
  EachNibble(block.codes, out, [=](int, int q) { return scale * static_cast<float>(q - 8); });
}

THINWIRE_INLINE void DecodeBlock(const BlockQ4_1& block, float* out) {
  const float scale = ToFloat(block.scale);
  const float min = ToFloat(block.min);
  EachNibble(block.codes, out, [=](int, int q) { return scale * static_cast<float>(q) + min; });
}

THINWIRE_INLINE void DecodeBlock(const BlockQ5_0& block, float* out) {
  const float scale = ToFloat(block.scale);
  const uint32_t high = Word(block.high);
  EachNibble(block.codes, out, [=](int j, int q) {
    return scale * static_cast<float>((q | FifthBit(high, j)) - 16);
  });
}

THINWIRE_INLINE void DecodeBlock(const BlockQ5_1& block, float* out) {
  const float scale = ToFloat(block.scale);
  const float min = ToFloat(block.min);
  const uint32_t high = Word(block.high);
  EachNibble(block.codes, out,
             [=](int j, int q) { return scale * static_cast<float>(q | FifthBit(high, j)) + min; });
}

THINWIRE_INLINE void DecodeBlock(const BlockQ8_0& block, float* out) {
  const float scale = ToFloat(block.scale);
  for (int j = 0; j < 32; ++j) out[j] = scale * static_cast<float>(block.codes[j]);
}

THINWIRE_INLINE void DecodeBlock(const BlockIQ4_NL& block, float* out) {
  const float scale = ToFloat(block.scale);
  EachNibble(block.codes, out,
             [=](int, int q) { return scale * static_cast<float>(kIQ4_NLValues[q]); });
}

THINWIRE_INLINE void DecodeBlock(const BlockMXFP4& block, float* out) {
  const float scale = MXFP4Scale(block.exponent);
  EachNibble(block.codes, out,
             [=](int, int q) { return scale * static_cast<float>(kMXFP4Values[q]); });
}

THINWIRE_INLINE void DecodeBlock(const BlockQ2_K& block, float* out) {
  const float scale = ToFloat(block.scale);
  const float min = ToFloat(block.min);
  for (int g = 0; g < 16; ++g) {
    const float group_scale = scale * static_cast<float>(block.scales[g] & 15);
    const float group_min = min * static_cast<float>(block.scales[g] >> 4);
    const uint8_t* codes = block.codes + 32 * (g / 8) + 16 * (g % 2);
    const int shift = g / 2 % 4 * 2;
    for (int j = 0; j < 16; ++j) {
      out[16 * g + j] = group_scale * static_cast<float>((codes[j] >> shift) & 3) - group_min;
    }
  }
}

THINWIRE_INLINE void DecodeBlock(const BlockQ3_K& block, float* out) {
  const float scale = ToFloat(block.scale);
  for (int g = 0; g < 16; ++g) {
    const float group_scale = scale * static_cast<float>(Q3_KScale(block.scales, g));
    const uint8_t* codes = block.codes + 32 * (g / 8) + 16 * (g % 2);
    const uint8_t* high = block.high + 16 * (g % 2);
    const int shift = g / 2 % 4 * 2;
    for (int j = 0; j < 16; ++j) {
      const int code = ((codes[j] >> shift) & 3) | (((high[j] >> (g / 2)) & 1) << 2);
      out[16 * g + j] = group_scale * static_cast<float>(code - 4);
    }
  }
}

THINWIRE_INLINE void DecodeBlock(const BlockQ4_K& block, float* out) {
  const float scale = ToFloat(block.scale);
  const float min = ToFloat(block.min);
  for (int g = 0; g < 8; ++g) {
    const float group_scale = scale * static_cast<float>(GroupScale(block.scales, g));
    const float group_min = min * static_cast<float>(GroupMin(block.scales, g));
    const uint8_t* codes = block.codes + 32 * (g / 2);
    const int shift = g % 2 * 4;
    for (int j = 0; j < 32; ++j) {
      out[32 * g + j] = group_scale * static_cast<float>((codes[j] >> shift) & 15) - group_min;
    }
  }
}

THINWIRE_INLINE void DecodeBlock(const BlockQ5_K& block, float* out) {
  const float scale = ToFloat(block.scale);
  const float min = ToFloat(block.min);
  for (int g = 0; g < 8; ++g) {
    const float group_scale = scale * static_cast<float>(GroupScale(block.scales, g));
    const float group_min = min * static_cast<float>(GroupMin(block.scales, g));
    const uint8_t* codes = block.codes + 32 * (g / 2);
    const int shift = g % 2 * 4;
    for (int j = 0; j < 32; ++j) {
      const int code = ((codes[j] >> shift) & 15) | (((block.high[j] >> g) & 1) << 4);
      out[32 * g + j] = group_scale * static_cast<float>(code) - group_min;
    }
  }
}

THINWIRE_INLINE void DecodeBlock(const BlockQ6_K& block, float* out) {
  const float scale = ToFloat(block.scale);
  for (int g = 0; g < 16; ++g) {
    const float group_scale = scale * static_cast<float>(block.scales[g]);
    const int quarter = g / 2 % 4;
    const uint8_t* codes = block.codes + 64 * (g / 8) + 32 * (quarter % 2) + 16 * (g % 2);
    const uint8_t* high = block.high + 32 * (g / 8) + 16 * (g % 2);
    for (int j = 0; j < 16; ++j) {
      const int low = (codes[j] >> (quarter / 2 * 4)) & 15;
      const int code = low | (((high[j] >> (2 * quarter)) & 3) << 4);
      out[16 * g + j] = group_scale * static_cast<float>(code - 32);
    }
  }
}

template <typename Block, int kElements>
void DecodeAll(const std::byte* blocks, int64_t count, float* values) {
  const auto* block = reinterpret_cast<const Block*>(blocks);
  for (int64_t b = 0; b < count; ++b) DecodeBlock(block[b], values + b * kElements);
}

}  // namespace

void DecodeBlocks(WeightType type, const std::byte* blocks, int64_t count, float* values) {
  switch (type) {
    case WeightType::kQ4_0:
      return DecodeAll<BlockQ4_0, kSmallBlock>(blocks, count, values);
    case WeightType::kQ4_1:
      return DecodeAll<BlockQ4_1, kSmallBlock>(blocks, count, values);
    case WeightType::kQ5_0:
      return DecodeAll<BlockQ5_0, kSmallBlock>(blocks, count, values);
    case WeightType::kQ5_1:
      return DecodeAll<BlockQ5_1, kSmallBlock>(blocks, count, values);
    case WeightType::kQ8_0:
      return DecodeAll<BlockQ8_0, kSmallBlock>(blocks, count, values);
    case WeightType::kIQ4_NL:
      return DecodeAll<BlockIQ4_NL, kSmallBlock>(blocks, count, values);
    case WeightType::kMXFP4:
      return DecodeAll<BlockMXFP4, kSmallBlock>(blocks, count, values);
    case WeightType::kQ2_K:
      return DecodeAll<BlockQ2_K, kSuperBlock>(blocks, count, values);
    case WeightType::kQ3_K:
      return DecodeAll<BlockQ3_K, kSuperBlock>(blocks, count, values);
    case WeightType::kQ4_K:
      return DecodeAll<BlockQ4_K, kSuperBlock>(blocks, count, values);
    case WeightType::kQ5_K:
      return DecodeAll<BlockQ5_K, kSuperBlock>(blocks, count, values);
    case WeightType::kQ6_K:
      return DecodeAll<BlockQ6_K, kSuperBlock>(blocks, count, values);
    case WeightType::kF32:
    case WeightType::kF16:
    case WeightType::kBF16:
      return;  // no blocks: kernels::Convert
  }
}

}  // namespace thinwire::blocks::THINWIRE_ISA
