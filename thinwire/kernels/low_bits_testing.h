// For tests only: the formats of low_bits.h written down once more, one element at a time.
#pragma once

#include <string>

#include "thinwire/kernels/low_bits.h"
#include "thinwire/kernels/quantize_testing.h"

namespace thinwire::kernels {

constexpr std::array<CodeType, 3> kClippedTypes{CodeType::kInt4, CodeType::kInt3,
                                                CodeType::kTernary};

inline int ReachOf(CodeType type) {
  return type == CodeType::kInt4 ? 8 : type == CodeType::kInt3 ? 4 : 1;
}

inline std::string LowBitsName(CodeType type) {
  return type == CodeType::kInt4 ? "int4" : type == CodeType::kInt3 ? "int3" : "ternary";
}

inline double LargestScaleOf(CodeType type) {
  const uint16_t bits = type == CodeType::kInt4   ? 0x7dff
                        : type == CodeType::kInt3 ? 0x7e7f
                                                  : 0x7f7f;
  return static_cast<double>(ToFloat(BF16{bits}));
}

inline float ReferenceRms(ConstArray in, int64_t begin, int64_t end, float most) {
  const int exponent = std::min(std::max(std::ilogb(most), -126), 126);
  float sums[32] = {};
  for (int64_t i = begin; i < end; ++i) {
    const float x = std::ldexp(ElementAt(in, i), -exponent);
    sums[(i - begin) % 32] += x * x;
  }
  for (size_t half = 16; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return std::ldexp(std::sqrt(sums[0] / static_cast<float>(end - begin)), exponent);
}

// The bits of the scale of elements [begin, end).
inline uint16_t ReferenceScale(CodeType type, const Clip& clip, ConstArray in, int64_t begin,
                               int64_t end) {
  float most = 0, extreme = 0;
  for (int64_t i = begin; i < end; ++i) {
    const float x = ElementAt(in, i);
    if (!std::isfinite(x)) return 0x7fc0;
    if (std::abs(x) > most || (std::abs(x) == most && x > 0)) extreme = x;
    most = std::max(most, std::abs(x));
  }
  if (most == 0) return 0;
  const float basis = clip.basis == Clip::Basis::kMax ? most : ReferenceRms(in, begin, end, most);
  double scale = static_cast<double>(basis * clip.factor) / ReachOf(type);
  if (std::isfinite(scale)) {  // upwards to 8 significant bits
    const double unit = std::ldexp(1.0, std::max(scale > 0 ? std::ilogb(scale) : 0, -126) - 7);
    scale = std::ceil(scale / unit) * unit;
  }
  scale = std::min(std::max(scale, 0x1p-125), LargestScaleOf(type));
  const bool negative = type != CodeType::kTernary && extreme > 0;
  return ToBF16(static_cast<float>(negative ? -scale : scale)).bits;
}

// Where the code of element i of `size` lies: ternary digits from the highest one on.
struct DigitPlace {
  int64_t byte;
  int64_t digit;
};
inline DigitPlace PlaceOfDigit(int64_t i, int64_t size) {
  const int64_t chunk = i / 160, left = std::min<int64_t>(size - chunk * 160, 160);
  const int64_t stride = (left + 4) / 5;
  return {chunk * 32 + i % 160 % stride, i % 160 / stride};
}

inline void StoreCodes(CodeType type, const std::vector<int>& codes, std::byte* out) {
  const int64_t size = static_cast<int64_t>(codes.size());
  const BlockFormat format{type, 32};
  if (type == CodeType::kTernary) {
    std::vector<std::array<int, 5>> digits(static_cast<size_t>(format.CodeBytes(size)),
                                           {1, 1, 1, 1, 1});
    for (int64_t i = 0; i < size; ++i) {
      const DigitPlace at = PlaceOfDigit(i, size);
      digits[static_cast<size_t>(at.byte)][static_cast<size_t>(at.digit)] =
          codes[static_cast<size_t>(i)] + 1;
    }
    for (size_t b = 0; b < digits.size(); ++b) {
      int number = 0;
      for (const int digit : digits[b]) number = 3 * number + digit;
      out[b] = static_cast<std::byte>(number + (55 * number + 1003) / 1024);
    }
    return;
  }
  const int64_t bits = type == CodeType::kInt4 ? 4 : 3;
  std::fill_n(out, format.CodeBytes(size), std::byte{0});
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t bit = 0; bit < bits; ++bit) {
      const int64_t at = i * bits + bit;
      const int set = codes[static_cast<size_t>(i)] >> bit & 1;
      out[at / 8] |= static_cast<std::byte>(set << (at % 8));
    }
  }
}

inline int LowBitsCodeAt(CodeType type, const std::byte* codes, int64_t i, int64_t size) {
  if (type == CodeType::kTernary) {
    const DigitPlace at = PlaceOfDigit(i, size);
    int fraction = static_cast<int>(codes[at.byte]);
    for (int64_t k = 0; k < at.digit; ++k) fraction = fraction * 3 % 256;
    return fraction * 3 / 256 - 1;
  }
  const int bits = type == CodeType::kInt4 ? 4 : 3;
  int code = 0;
  for (int bit = 0; bit < bits; ++bit) {
    const int64_t at = i * bits + bit;
    code |= (static_cast<int>(codes[at / 8]) >> (at % 8) & 1) << bit;
  }
  return code < 1 << (bits - 1) ? code : code - (1 << bits);
}

inline EncodedBlocks ReferenceClipped(const BlockFormat& format, const Clip& clip, ConstArray in,
                                      size_t offset) {
  EncodedBlocks out(format, in.size, offset);
  const int reach = ReachOf(format.code);
  std::vector<int> codes(static_cast<size_t>(in.size));
  for (int64_t b = 0; b < format.Blocks(in.size); ++b) {
    const int64_t begin = b * format.block, end = std::min(in.size, begin + format.block);
    const uint16_t bits = ReferenceScale(format.code, clip, in, begin, end);
    std::memcpy(out.blocks().scales + 2 * b, &bits, 2);
    const float scale = ToFloat(BF16{bits});
    for (int64_t i = begin; i < end && scale != 0 && !std::isnan(scale); ++i) {
      const float exact = ElementAt(in, i) * (1.0f / scale);
      const float high = static_cast<float>(format.code == CodeType::kTernary ? 1 : reach - 1);
      codes[static_cast<size_t>(i)] = static_cast<int>(
          std::nearbyint(std::min(std::max(exact, static_cast<float>(-reach)), high)));
    }
  }
  StoreCodes(format.code, codes, out.blocks().codes);
  return out;
}

inline EncodedBlocks Clipped(Isa isa, const BlockFormat& format, const Clip& clip, ConstArray in,
                             size_t offset = 0) {
  EncodedBlocks out(format, in.size, offset);
  QuantizeClipped({isa}, format, clip, in, out.blocks());
  return out;
}

}  // namespace thinwire::kernels
