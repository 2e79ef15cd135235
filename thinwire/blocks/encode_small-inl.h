// Only for encode_isa.cc: blocks of 32 elements, sixteen to a tile.
#pragma once

#include "thinwire/blocks/encode_search-inl.h"
#include "thinwire/blocks/formats.h"

namespace thinwire::blocks::THINWIRE_ISA {
namespace {

using SmallTile = Tile<kSmallBlock>;
using SmallCodes = TileCodes<kSmallBlock>;

// The low four bits of `code` + offset.
THINWIRE_INLINE void PackNibbles(const SmallCodes& codes, int group, int offset,
                                 uint8_t (&bytes)[16]) {
  for (int j = 0; j < 16; ++j) {
    const int low = codes.At(j, group) + offset;
    const int high = codes.At(j + 16, group) + offset;
    bytes[j] = static_cast<uint8_t>((low & 15) | ((high & 15) << 4));
  }
}

// Bit 4.
THINWIRE_INLINE void PackFifthBits(const SmallCodes& codes, int group, int offset,
                                   uint8_t (&bytes)[4]) {
  for (int b = 0; b < 4; ++b) {
    int bits = 0;
    for (int j = 0; j < 8; ++j) bits |= (((codes.At(8 * b + j, group) + offset) >> 4) & 1) << j;
    bytes[b] = static_cast<uint8_t>(bits);
  }
}

THINWIRE_INLINE void Pack(const SmallCodes& codes, int group, BlockQ4_0& block) {
  PackNibbles(codes, group, 8, block.codes);
}
THINWIRE_INLINE void Pack(const SmallCodes& codes, int group, BlockQ5_0& block) {
  PackNibbles(codes, group, 16, block.codes);
  PackFifthBits(codes, group, 16, block.high);
}
THINWIRE_INLINE void Pack(const SmallCodes& codes, int group, BlockQ8_0& block) {
  for (int j = 0; j < 32; ++j) block.codes[j] = static_cast<int8_t>(codes.At(j, group));
}
THINWIRE_INLINE void Pack(const SmallCodes& codes, int group, BlockQ4_1& block) {
  PackNibbles(codes, group, 0, block.codes);
}
THINWIRE_INLINE void Pack(const SmallCodes& codes, int group, BlockQ5_1& block) {
  PackNibbles(codes, group, 0, block.codes);
  PackFifthBits(codes, group, 0, block.high);
}
// Codes of tables are still values here.
template <typename Block>
THINWIRE_INLINE void PackValues(const SmallCodes& codes, int group, const int8_t (&values)[16],
                                Block& block) {
  uint8_t code[kSmallBlock];
  for (int j = 0; j < kSmallBlock; ++j) {
    int q = 0;
    while (q < 15 && values[q] != codes.At(j, group)) ++q;
    code[j] = static_cast<uint8_t>(q);
  }
  for (int j = 0; j < 16; ++j) {
    block.codes[j] = static_cast<uint8_t>(code[j] | (code[j + 16] << 4));
  }
}
THINWIRE_INLINE void Pack(const SmallCodes& codes, int group, BlockIQ4_NL& block) {
  PackValues(codes, group, kIQ4_NLValues, block);
}

template <typename Codes>
struct ScaleOnly {
  Codes codes;
  Grid negative;
  Grid positive;
};

// Q4_0, Q5_0, Q8_0, IQ4_NL.
template <typename Block, typename Codes>
void EncodeScaled(const Source& source, const ScaleOnly<Codes>& type, Block* blocks) {
  const int64_t count = source.elements / kSmallBlock;
  SmallTile tile;
  SmallCodes codes;
  for (int64_t first = 0; first < count; first += kGroups) {
    LoadTile<kSmallBlock, 1>(source, first, tile);
    PerGroup scale;
    for (int lane = 0; lane < kGroups; lane += kLanes) {
      scale.lanes(lane) = SearchScale(tile, lane, type.codes, type.negative, type.positive);
      for (int g = lane; g < lane + kLanes; ++g) scale.at[g] = tile.RoundToHalf(scale.at[g], g);
      Quantize(tile, lane, type.codes, scale.lanes(lane), Floats{}, codes);
    }
    for (int g = 0; g < kGroups && first + g < count; ++g) {
      blocks[first + g].scale = tile.Half(scale.at[g], g);
      Pack(codes, g, blocks[first + g]);
    }
  }
}

// Q4_1, Q5_1.
template <typename Block>
void EncodeAffine(const Source& source, int most, const Grid& grid, const Grid& phases,
                  Block* blocks) {
  const int64_t count = source.elements / kSmallBlock;
  SmallTile tile;
  SmallCodes codes;
  for (int64_t first = 0; first < count; first += kGroups) {
    LoadTile<kSmallBlock, 1>(source, first, tile);
    PerGroup scale;
    PerGroup min;
    for (int lane = 0; lane < kGroups; lane += kLanes) {
      const AffineFit fit = SearchAffine(tile, lane, most, true, grid, phases);
      scale.lanes(lane) = fit.scale;
      min.lanes(lane) = fit.min;
      for (int g = lane; g < lane + kLanes; ++g) {
        scale.at[g] = tile.RoundToHalf(scale.at[g], g);
        min.at[g] = tile.RoundToHalf(min.at[g], g);
      }
      const Uniform all{0, most};
      Quantize(tile, lane, all, scale.lanes(lane), min.lanes(lane), codes);
    }
    for (int g = 0; g < kGroups && first + g < count; ++g) {
      blocks[first + g].scale = tile.Half(scale.at[g], g);
      blocks[first + g].min = tile.Half(min.at[g], g);
      Pack(codes, g, blocks[first + g]);
    }
  }
}

// The values of E2M1, doubled; -0 is never written.
struct E2M1 {
  THINWIRE_INLINE Floats operator()(Floats x) const {
    const Floats magnitude = Abs(x);
    Floats value = magnitude > 0.5f ? All(1.0f) : Floats{};
    value += magnitude > 1.5f ? All(1.0f) : Floats{};
    value += magnitude > 2.5f ? All(1.0f) : Floats{};
    value += magnitude > 3.5f ? All(1.0f) : Floats{};
    value += magnitude > 5.0f ? All(2.0f) : Floats{};
    value += magnitude > 7.0f ? All(2.0f) : Floats{};
    value += magnitude > 10.0f ? All(4.0f) : Floats{};
    return x < 0.0f ? -value : value;
  }
};

// Exponents to try, and the scales they are in units of a group.
struct MXFP4Trial {
  PerGroup exponent;
  PerGroup scale;
};

// 2^`power` units, or what the exponent's byte holds nearest to that.
THINWIRE_INLINE MXFP4Trial TrialOf(const SmallTile& tile, int lane, int power) {
  MXFP4Trial trial;
  for (int g = lane; g < lane + kLanes; ++g) {
    const int unit = static_cast<int>(__builtin_bit_cast(uint32_t, tile.unit.at[g]) >> 23) - 127;
    const int wanted = unit + power + 128;
    const int exponent = wanted < 0 ? 0 : wanted > 254 ? 254 : wanted;
    trial.exponent.at[g] = static_cast<float>(exponent);
    trial.scale.at[g] = MXFP4Scale(static_cast<uint8_t>(exponent - unit));
  }
  return trial;
}

THINWIRE_INLINE Floats ErrorUnder(const SmallTile& tile, int lane, Floats scale) {
  const Floats inverse = Inverse(scale);
  Floats error{};
  for (int i = 0; i < kSmallBlock; ++i) {
    const Floats x = tile.x[i].lanes(lane);
    const Floats miss = x - scale * E2M1{}(x * inverse);
    error += tile.weight[i].lanes(lane) * miss * miss;
  }
  return error;
}

// A block's x are below 2 units, so that a scale of 1/16 unit reaches only 0.75 of them and one of
// 1/4 the largest.
void EncodeMXFP4(const Source& source, BlockMXFP4* blocks) {
  const int64_t count = source.elements / kSmallBlock;
  SmallTile tile;
  SmallCodes codes;
  for (int64_t first = 0; first < count; first += kGroups) {
    LoadTile<kSmallBlock, 1>(source, first, tile);
    PerGroup exponent;
    for (int lane = 0; lane < kGroups; lane += kLanes) {
      Floats scale{};
      Floats least = All(__builtin_huge_valf());
      for (int power = -4; power <= -2; ++power) {
        const MXFP4Trial trial = TrialOf(tile, lane, power);
        const Floats error = ErrorUnder(tile, lane, trial.scale.lanes(lane));
        const Ints better = error < least;
        least = better ? error : least;
        scale = better ? trial.scale.lanes(lane) : scale;
        exponent.lanes(lane) = better ? trial.exponent.lanes(lane) : exponent.lanes(lane);
      }
      Quantize(tile, lane, E2M1{}, scale, Floats{}, codes);
    }
    for (int g = 0; g < kGroups && first + g < count; ++g) {
      blocks[first + g].exponent = static_cast<uint8_t>(exponent.at[g]);
      PackValues(codes, g, kMXFP4Values, blocks[first + g]);
    }
  }
}

}  // namespace
}  // namespace thinwire::blocks::THINWIRE_ISA
