// For tests only: inputs at the edges of the block formats, and the formats written down once more,
// one element at a time in fp64 where fp32 is not prescribed.
#pragma once

#include <cfenv>
#include <cmath>
#include <limits>

#include "thinwire/kernels/quantize.h"
#include "thinwire/kernels/test_inputs.h"

namespace thinwire::kernels {

constexpr std::array<CodeType, 2> kCodeTypes{CodeType::kInt8, CodeType::kInt4};

inline std::string NameOf(CodeType type) { return type == CodeType::kInt8 ? "int8" : "int4"; }

// `size` numbers whose kind changes every 32: normal, of any finite magnitude, subnormal and around
// the least scale, around the largest numbers, ties between codes, zeros of both signs, and
// occasionally NaN and inf among ones.
inline float EdgeOfBlocks(uint64_t draw, int64_t i, uint64_t key) {
  const uint32_t bits = static_cast<uint32_t>(draw);
  const float sign = (draw >> 40) % 2 == 0 ? 1.0f : -1.0f;
  const auto below = [&](uint64_t n) { return static_cast<float>((draw >> 42) % n); };
  switch ((static_cast<uint64_t>(i) / 32 + key) % 8) {
    case 0:
      return static_cast<float>(CounterRandom(key).Normal(static_cast<uint64_t>(i)));
    case 1:
      return __builtin_bit_cast(float, (bits & 0x7f800000u) == 0x7f800000u ? 1u : bits);
    case 2:
      return sign * __builtin_bit_cast(float, bits % 0x00010000u);
    case 3:
      return sign * 0x1p-126f * (below(4096) / 16.0f);
    case 4:
      return __builtin_bit_cast(float, 0x7f7fffffu - (bits & 0x3fffffu)) * sign;
    case 5:
      return sign * (i % 32 == 0 ? 127.0f : below(254) / 2.0f);  // int8's scale is 1
    case 6:
      return i % 32 == 0 ? -16.0f : sign * below(33) / 2.0f;  // int4's scale is 2
    default:
      return draw >> 58 == 0   ? std::numeric_limits<float>::infinity() * sign
             : draw >> 58 == 1 ? __builtin_bit_cast(float, bits | 0x7f800001u)
                               : sign * below(2);
  }
}

struct BlockInputs {
  std::vector<std::byte> bytes;
  ConstArray array;

  BlockInputs(DType dtype, int64_t size, int64_t offset, uint64_t key)
      : bytes(static_cast<size_t>(offset + size * SizeOf(dtype))),
        array(bytes.data() + offset, dtype, size) {
    for (int64_t i = 0; i < size; ++i) {
      const uint64_t draw = CounterRandom(key ^ 77).Bits(static_cast<uint64_t>(i));
      const float value = EdgeOfBlocks(draw, i, key);
      const uint16_t half = dtype == DType::kBF16 ? ToBF16(value).bits : ToFP16(value).bits;
      std::byte* at = bytes.data() + offset + i * SizeOf(dtype);
      if (dtype == DType::kF32) std::memcpy(at, &value, sizeof(value));
      if (dtype != DType::kF32) std::memcpy(at, &half, sizeof(half));
    }
  }
};

// Codes and scales behind guards; `offset` bytes before each.
struct EncodedBlocks {
  static constexpr size_t kGuard = 64;
  std::vector<std::byte> codes, scales;
  size_t offset;

  EncodedBlocks(const BlockFormat& format, int64_t size, size_t at)
      : codes(static_cast<size_t>(format.CodeBytes(size)) + at + kGuard, std::byte{0xa5}),
        scales(static_cast<size_t>(2 * format.Blocks(size)) + at + kGuard, std::byte{0xa5}),
        offset(at) {}
  MutableBlocks blocks() { return {codes.data() + offset, scales.data() + offset}; }
  ConstBlocks blocks() const { return {codes.data() + offset, scales.data() + offset}; }
  uint16_t scale(int64_t block) const {
    uint16_t bits = 0;
    std::memcpy(&bits, blocks().scales + 2 * block, 2);
    return bits;
  }
  bool operator==(const EncodedBlocks& other) const {
    return codes == other.codes && scales == other.scales;
  }
};

inline EncodedBlocks Quantized(Isa isa, const BlockFormat& format, ConstArray in, size_t offset = 0,
                               ScaleChoice choice = ScaleChoice::kExtreme) {
  EncodedBlocks out(format, in.size, offset);
  Quantize({isa}, format, choice, in, out.blocks());
  return out;
}

inline int CodeAt(CodeType type, const std::byte* codes, int64_t i) {
  if (type == CodeType::kInt8) return static_cast<int8_t>(codes[i]);
  const int nibble = (static_cast<int>(codes[i / 2]) >> (4 * (i % 2))) & 15;
  return nibble >= 8 ? nibble - 16 : nibble;
}

// What quantize.h says of elements [begin, end) of one block.
inline void ReferenceBlock(CodeType type, ConstArray in, int64_t begin, int64_t end,
                           std::byte* codes, std::byte* scale_out) {
  const bool int8 = type == CodeType::kInt8;
  double most = 0, extreme = 0;
  bool finite = true;
  for (int64_t i = begin; i < end; ++i) {
    const double x = static_cast<double>(ElementAt(in, i));
    finite = finite && std::isfinite(x);
    if (std::abs(x) > most || (std::abs(x) == most && x > 0)) extreme = x;
    most = std::max(most, std::abs(x));
  }
  // Upwards to 8 significant bits, between the bounds.
  double scale = int8 ? static_cast<double>(static_cast<float>(most) / 127.0f) : most / 8;
  const double unit = std::ldexp(1.0, std::max(scale > 0 ? std::ilogb(scale) : 0, -126) - 7);
  scale = std::ceil(scale / unit) * unit;
  scale = std::max(scale, 0x1p-125);
  scale = std::min(
      scale, static_cast<double>(ToFloat(BF16{static_cast<uint16_t>(int8 ? 0x7c01 : 0x7dff)})));
  float signed_scale = static_cast<float>(!int8 && extreme > 0 ? -scale : scale);
  if (most == 0) signed_scale = 0;
  const uint16_t bits = finite ? ToBF16(signed_scale).bits : uint16_t{0x7fc0};
  std::memcpy(scale_out, &bits, 2);
  for (int64_t i = begin; i < end; ++i) {
    int code = 0;
    if (finite && most > 0) {
      const float inverse = 1.0f / signed_scale;
      code = static_cast<int>(std::nearbyint(ElementAt(in, i) * inverse));
    }
    if (!int8) code = std::min(code, 7);
    if (int8) codes[i] = static_cast<std::byte>(code);
    if (int8) continue;
    if (i % 2 == 0) codes[i / 2] = std::byte{0};
    codes[i / 2] |= static_cast<std::byte>((code & 15) << (4 * (i % 2)));
  }
}

inline EncodedBlocks ReferenceQuantized(const BlockFormat& format, ConstArray in, size_t offset) {
  EncodedBlocks out(format, in.size, offset);
  for (int64_t b = 0; b < format.Blocks(in.size); ++b) {
    ReferenceBlock(format.code, in, b * format.block, std::min(in.size, (b + 1) * format.block),
                   out.blocks().codes, out.blocks().scales + 2 * b);
  }
  return out;
}

}  // namespace thinwire::kernels
