// Only for encode_isa.cc: sixteen groups of weights side by side, one to a lane.
//
// A search handles a whole vector of groups at once and never mixes lanes, so the width of the
// vector, which is the instruction set's, changes no bit of the result.
#pragma once

#include <cstddef>
#include <cstdint>

#include "thinwire/base/dtype.h"

namespace thinwire::blocks::THINWIRE_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
typedef float Floats __attribute__((vector_size(4 * kLanes), may_alias));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes), may_alias));

constexpr int kGroups = 16;  // of a tile

// One number for each group of a tile.
struct alignas(64) PerGroup {
  float at[kGroups] = {};

  THINWIRE_INLINE Floats& lanes(int first) { return *reinterpret_cast<Floats*>(at + first); }
  THINWIRE_INLINE const Floats& lanes(int first) const {
    return *reinterpret_cast<const Floats*>(at + first);
  }
};

THINWIRE_INLINE Floats All(float x) { return x - Floats{}; }
THINWIRE_INLINE Floats Max(Floats a, Floats b) { return a < b ? b : a; }
THINWIRE_INLINE Floats Min(Floats a, Floats b) { return b < a ? b : a; }
THINWIRE_INLINE Floats Abs(Floats x) {
  return reinterpret_cast<Floats>(reinterpret_cast<Ints>(x) & 0x7fffffff);
}
// 1 / x, and 0 for 0.
THINWIRE_INLINE Floats Inverse(Floats x) { return x == 0.0f ? Floats{} : 1.0f / x; }

// The nearest integer, ties to even, held within low..high. Added to 1.5 * 2^23 it stands in the
// low bits, where integer instructions clamp it; what is too large for that is beyond the bounds
// there as well, since the bits of floats are ordered as the floats are.
THINWIRE_INLINE Floats RoundWithin(Floats x, int low, int high) {
  constexpr float kShift = 12582912.0f;
  constexpr int32_t kShiftBits = __builtin_bit_cast(int32_t, kShift);
  const Floats shifted = x + kShift;
  Ints bits = reinterpret_cast<Ints>(shifted);
  const Ints least = kShiftBits + low - Ints{};
  const Ints most = kShiftBits + high - Ints{};
  bits = bits < least ? least : bits;
  bits = bits > most ? most : bits;
  return reinterpret_cast<Floats>(bits) - kShift;
}

// `kN` elements of each of sixteen groups, divided by a power of two of their own (or their super
// block's), so that sums of squares neither overflow nor vanish.
template <int kN>
struct alignas(64) Tile {
  PerGroup x[size_t{kN}];
  PerGroup weight[size_t{kN}];  // of the squared error of an element
  PerGroup unit;                // what x was divided by
  bool weighted = false;        // not all weights are 1

  // value * unit is stored as fp16; this is what the decoder will find there, in units. Beyond
  // fp16's range it is its largest number, below it 0.
  THINWIRE_INLINE float RoundToHalf(float value, int group) const {
    return ToFloat(Half(value, group)) / unit.at[group];
  }
  THINWIRE_INLINE FP16 Half(float value, int group) const {
    const float scaled = value * unit.at[group];
    return ToFP16(scaled > 65504.0f ? 65504.0f : scaled < -65504.0f ? -65504.0f : scaled);
  }
};

// What the codes of a tile's elements are going to be.
template <int kN>
struct alignas(64) TileCodes {
  PerGroup code[size_t{kN}];

  THINWIRE_INLINE int At(int element, int group) const {
    return static_cast<int>(code[element].at[group]);
  }
};

// Rows of weights to encode, and how much each column matters (null: all alike).
struct Source {
  const float* rows;
  const float* importance;
  int64_t columns;
  int64_t elements;
};

// Groups first.. of kN elements each; those behind the end are zeros. `kGroupsPerUnit` neighbours
// share a unit.
template <int kN, int kGroupsPerUnit>
void LoadTile(const Source& source, int64_t first, Tile<kN>& tile) {
  for (int g = 0; g < kGroups; ++g) {
    const int64_t begin = (first + g) * kN;
    const bool there = begin < source.elements;
    for (int i = 0; i < kN; ++i) {
      tile.x[i].at[g] = there ? source.rows[begin + i] : 0.0f;
      tile.weight[i].at[g] = there && source.importance != nullptr
                                 ? source.importance[begin % source.columns + i]
                                 : 1.0f;
    }
  }
  tile.weighted = source.importance != nullptr;
  uint32_t largest[kGroups] = {};  // bits of absolute values compare as these do
  for (int i = 0; i < kN; ++i) {
    for (int g = 0; g < kGroups; ++g) {
      const uint32_t bits = __builtin_bit_cast(uint32_t, tile.x[i].at[g]) & 0x7fffffffu;
      largest[g] = largest[g] < bits ? bits : largest[g];
    }
  }
  PerGroup inverse;
  for (int g = 0; g < kGroups; g += kGroupsPerUnit) {
    uint32_t most = 0;
    for (int h = g; h < g + kGroupsPerUnit; ++h) most = most < largest[h] ? largest[h] : most;
    uint32_t exponent = most >> 23;
    exponent = exponent < 1 ? 1 : exponent > 253 ? 253 : exponent;  // so that both are normal
    for (int h = g; h < g + kGroupsPerUnit; ++h) {
      tile.unit.at[h] = __builtin_bit_cast(float, exponent << 23);
      inverse.at[h] = __builtin_bit_cast(float, (254 - exponent) << 23);
    }
  }
  for (int i = 0; i < kN; ++i) {
    for (int g = 0; g < kGroups; ++g) tile.x[i].at[g] *= inverse.at[g];
  }
}

}  // namespace
}  // namespace thinwire::blocks::THINWIRE_ISA
