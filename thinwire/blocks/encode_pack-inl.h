// Only for encode_isa.cc: the integers of a super block into its bytes.
#pragma once

#include "thinwire/blocks/encode_super-inl.h"
#include "thinwire/blocks/formats.h"

namespace thinwire::blocks::THINWIRE_ISA {
namespace {

// The codes of `kN` elements a group, from group `first` on, in the order of the block's elements.
template <int kN>
THINWIRE_INLINE void Gather(const TileCodes<kN>& codes, int first, int offset,
                            uint8_t (&out)[kSuperBlock]) {
  for (int e = 0; e < kSuperBlock; ++e) {
    out[e] = static_cast<uint8_t>(codes.At(e % kN, first + e / kN) + offset);
  }
}

// The low two bits of each code, as in Q2_K and Q3_K.
THINWIRE_INLINE void PackPairs(const uint8_t (&codes)[kSuperBlock], uint8_t (&bytes)[64]) {
  for (int j = 0; j < 64; ++j) {
    const uint8_t* column = codes + 128 * (j / 32) + j % 32;
    bytes[j] = static_cast<uint8_t>((column[0] & 3) | ((column[32] & 3) << 2) |
                                    ((column[64] & 3) << 4) | ((column[96] & 3) << 6));
  }
}

// The low four bits of each code, as in Q4_K and Q5_K.
THINWIRE_INLINE void PackHalves(const uint8_t (&codes)[kSuperBlock], uint8_t (&bytes)[128]) {
  for (int j = 0; j < 128; ++j) {
    const uint8_t* column = codes + 64 * (j / 32) + j % 32;
    bytes[j] = static_cast<uint8_t>((column[0] & 15) | ((column[32] & 15) << 4));
  }
}

// Bit `bit` of each code: element 32 g + l is bit g of byte l.
THINWIRE_INLINE void PackBit(const uint8_t (&codes)[kSuperBlock], int bit, uint8_t (&bytes)[32]) {
  for (int l = 0; l < 32; ++l) {
    int bits = 0;
    for (int g = 0; g < 8; ++g) bits |= ((codes[32 * g + l] >> bit) & 1) << g;
    bytes[l] = static_cast<uint8_t>(bits);
  }
}

template <int kN, typename Block>
THINWIRE_INLINE void PackFactors(const Tile<kN>& tile, const GroupedFit<kN>& fit, int first,
                                 Block& block) {
  block.scale = tile.Half(fit.factor.at[first], first);
  block.min = tile.Half(fit.min_factor.at[first], first);
}

// The scales and mins of Q4_K and Q5_K.
THINWIRE_INLINE void PackSixBits(const GroupedFit<32>& fit, int first, uint8_t (&bytes)[12]) {
  uint8_t scales[8];
  uint8_t mins[8];
  for (int g = 0; g < 8; ++g) {
    scales[g] = static_cast<uint8_t>(fit.scale.at[first + g]);
    mins[g] = static_cast<uint8_t>(fit.min.at[first + g]);
  }
  PackGroups(scales, mins, bytes);
}

void PackQ2_K(BlockQ2_K& block, const Tile<16>& tile, const GroupedFit<16>& fit, int first) {
  uint8_t codes[kSuperBlock];
  Gather(fit.codes, first, 0, codes);
  PackPairs(codes, block.codes);
  for (int g = 0; g < 16; ++g) {
    block.scales[g] = static_cast<uint8_t>(static_cast<int>(fit.scale.at[first + g]) |
                                           (static_cast<int>(fit.min.at[first + g]) << 4));
  }
  PackFactors(tile, fit, first, block);
}

void PackQ3_K(BlockQ3_K& block, const Tile<16>& tile, const GroupedFit<16>& fit, int first) {
  uint8_t codes[kSuperBlock];
  Gather(fit.codes, first, 4, codes);
  PackPairs(codes, block.codes);
  PackBit(codes, 2, block.high);
  int8_t scales[16];
  for (int g = 0; g < 16; ++g) scales[g] = static_cast<int8_t>(fit.scale.at[first + g]);
  PackQ3_KScales(scales, block.scales);
  block.scale = tile.Half(fit.factor.at[first], first);
}

void PackQ4_K(BlockQ4_K& block, const Tile<32>& tile, const GroupedFit<32>& fit, int first) {
  uint8_t codes[kSuperBlock];
  Gather(fit.codes, first, 0, codes);
  PackHalves(codes, block.codes);
  PackSixBits(fit, first, block.scales);
  PackFactors(tile, fit, first, block);
}

void PackQ5_K(BlockQ5_K& block, const Tile<32>& tile, const GroupedFit<32>& fit, int first) {
  uint8_t codes[kSuperBlock];
  Gather(fit.codes, first, 0, codes);
  PackHalves(codes, block.codes);
  PackBit(codes, 4, block.high);
  PackSixBits(fit, first, block.scales);
  PackFactors(tile, fit, first, block);
}

void PackQ6_K(BlockQ6_K& block, const Tile<16>& tile, const GroupedFit<16>& fit, int first) {
  uint8_t codes[kSuperBlock];
  Gather(fit.codes, first, 32, codes);
  for (int j = 0; j < 128; ++j) {
    const uint8_t* column = codes + 128 * (j / 64) + j % 64;
    block.codes[j] = static_cast<uint8_t>((column[0] & 15) | ((column[64] & 15) << 4));
  }
  for (int j = 0; j < 64; ++j) {
    const uint8_t* column = codes + 128 * (j / 32) + j % 32;
    block.high[j] = static_cast<uint8_t>((column[0] >> 4) | ((column[32] >> 4) << 2) |
                                         ((column[64] >> 4) << 4) | ((column[96] >> 4) << 6));
  }
  for (int g = 0; g < 16; ++g) block.scales[g] = static_cast<int8_t>(fit.scale.at[first + g]);
  block.scale = tile.Half(fit.factor.at[first], first);
}

}  // namespace
}  // namespace thinwire::blocks::THINWIRE_ISA
