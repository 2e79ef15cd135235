// Only for encode_isa.cc: super blocks of 256 elements, whose groups have integer scales (and mins)
// under one fp16 factor each.
//
// Each group is searched alone first. The largest scale then sets the factor and the others are
// rounded; after that each group tries the integers beside its own, the factors are fitted to all
// groups at once, and the groups try once more.
#pragma once

#include "thinwire/blocks/encode_search-inl.h"
#include "thinwire/blocks/formats.h"

namespace thinwire::blocks::THINWIRE_ISA {
namespace {

// x = (factor * scale) * code - (min_factor * min), scale and min integers, factors fp16, the same
// for all groups of a super block.
template <int kN>
struct GroupedFit {
  PerGroup factor;
  PerGroup min_factor;
  PerGroup scale;
  PerGroup min;
  PerGroup error = Unfitted();
  TileCodes<kN> codes;

  static PerGroup Unfitted() {
    PerGroup error;
    for (float& e : error.at) e = __builtin_huge_valf();
    return error;
  }
};

struct GroupedType {
  int code_low;
  int code_high;
  int scale_low;
  int scale_high;
  int min_high;  // 0: no mins
  Grid grid;
  Grid other;  // phases, or without mins the grid for the other sign
};

// Codes and error of one scale and min of each group, kept where they are better.
template <int kN>
THINWIRE_INLINE void TryGroups(const Tile<kN>& tile, int lane, const GroupedType& type,
                               Floats scale, Floats min, GroupedFit<kN>& fit) {
  const Floats s = fit.factor.lanes(lane) * scale;
  const Floats m = fit.min_factor.lanes(lane) * min;
  const Floats inverse = Inverse(s);
  Floats error{};
  for (int i = 0; i < kN; ++i) {
    const Floats x = tile.x[i].lanes(lane);
    const Floats q = RoundWithin((x + m) * inverse, type.code_low, type.code_high);
    const Floats miss = x - (s * q - m);
    error += tile.weight[i].lanes(lane) * miss * miss;
  }
  const Ints better = error < fit.error.lanes(lane);
  fit.error.lanes(lane) = better ? error : fit.error.lanes(lane);
  fit.scale.lanes(lane) = better ? scale : fit.scale.lanes(lane);
  fit.min.lanes(lane) = better ? min : fit.min.lanes(lane);
}

// The integers at and beside scale / factor and min / min_factor.
template <int kN>
THINWIRE_INLINE void RefineGroups(const Tile<kN>& tile, int lane, const GroupedType& type,
                                  Floats scale, Floats min, GroupedFit<kN>& fit) {
  const Floats s = scale * Inverse(fit.factor.lanes(lane));
  const Floats m = min * Inverse(fit.min_factor.lanes(lane));
  const int min_reach = type.min_high > 0 ? 1 : 0;
  for (int step = -1; step <= 1; ++step) {
    const Floats scale_step =
        RoundWithin(s + static_cast<float>(step), type.scale_low, type.scale_high);
    for (int min_step = -min_reach; min_step <= min_reach; ++min_step) {
      TryGroups(tile, lane, type, scale_step,
                RoundWithin(m + static_cast<float>(min_step), 0, type.min_high), fit);
    }
  }
}

template <int kN>
THINWIRE_INLINE void QuantizeGroups(const Tile<kN>& tile, int lane, const GroupedType& type,
                                    GroupedFit<kN>& fit) {
  const Floats s = fit.factor.lanes(lane) * fit.scale.lanes(lane);
  const Floats m = fit.min_factor.lanes(lane) * fit.min.lanes(lane);
  Quantize(tile, lane, Uniform{type.code_low, type.code_high}, s, -m, fit.codes);
}

// The factors of groups first.. that fit their integers and codes best.
template <int kN, int kGroupsPerUnit>
void RefitFactors(const Tile<kN>& tile, int first, GroupedFit<kN>& fit) {
  PerGroup qq, q, w, xq, x1;
  for (int lane = 0; lane < kGroups; lane += kLanes) {
    Floats sums[5] = {};
    for (int i = 0; i < kN; ++i) {
      const Floats x = tile.x[i].lanes(lane);
      const Floats weight = tile.weight[i].lanes(lane);
      const Floats code = fit.codes.code[i].lanes(lane);
      sums[0] += weight * code * code;
      sums[1] += weight * code;
      sums[2] += weight;
      sums[3] += weight * x * code;
      sums[4] += weight * x;
    }
    qq.lanes(lane) = sums[0];
    q.lanes(lane) = sums[1];
    w.lanes(lane) = sums[2];
    xq.lanes(lane) = sums[3];
    x1.lanes(lane) = sums[4];
  }
  double a = 0, b = 0, c = 0, e = 0, f = 0;
  for (int g = first; g < first + kGroupsPerUnit; ++g) {
    const double s = double{fit.scale.at[g]};
    const double m = double{fit.min.at[g]};
    a += s * s * double{qq.at[g]};
    b += s * m * double{q.at[g]};
    c += m * m * double{w.at[g]};
    e += s * double{xq.at[g]};
    f += m * double{x1.at[g]};
  }
  const double determinant = a * c - b * b;
  double factor = a > 0 ? e / a : 0.0;
  double min_factor = 0.0;
  if (determinant > 1e-9 * a * c) {
    factor = (e * c - f * b) / determinant;
    min_factor = (e * b - f * a) / determinant;
  }
  for (int g = first; g < first + kGroupsPerUnit; ++g) {
    fit.factor.at[g] = tile.RoundToHalf(static_cast<float>(factor), g);
    fit.min_factor.at[g] = tile.RoundToHalf(static_cast<float>(min_factor), g);
  }
}

// The fp16 factor under which the largest of groups first.. has the largest integer. Rounded away
// from zero: small weights make subnormal factors, and one rounded down by a percent would cut the
// largest group off by as much.
template <int kGroupsPerUnit, int kN>
void SetFactor(const Tile<kN>& tile, const PerGroup& values, int first, int largest_integer,
               PerGroup& factor) {
  float largest = 0.0f;
  for (int g = first; g < first + kGroupsPerUnit; ++g) {
    const float value = values.at[g];
    const bool more = __builtin_fabsf(value) > __builtin_fabsf(largest);
    largest = more ? value : largest;
  }
  const float wanted = largest / static_cast<float>(largest_integer);
  float rounded = tile.RoundToHalf(wanted, first);
  if (__builtin_fabsf(rounded) < __builtin_fabsf(wanted)) {
    const FP16 below = tile.Half(wanted, first);
    const FP16 above = {static_cast<uint16_t>(below.bits + 1)};
    if ((above.bits & 0x7fffu) < 0x7c00u) rounded = ToFloat(above) / tile.unit.at[first];
  }
  for (int g = first; g < first + kGroupsPerUnit; ++g) factor.at[g] = rounded;
}

// The super blocks of `second` whose error is less.
template <int kN, int kGroupsPerUnit>
void TakeBetter(const GroupedFit<kN>& second, GroupedFit<kN>& fit) {
  for (int first = 0; first < kGroups; first += kGroupsPerUnit) {
    float before = 0.0f;
    float after = 0.0f;
    for (int g = first; g < first + kGroupsPerUnit; ++g) {
      before += fit.error.at[g];
      after += second.error.at[g];
    }
    if (!(after < before)) continue;
    for (int g = first; g < first + kGroupsPerUnit; ++g) {
      fit.factor.at[g] = second.factor.at[g];
      fit.min_factor.at[g] = second.min_factor.at[g];
      fit.scale.at[g] = second.scale.at[g];
      fit.min.at[g] = second.min.at[g];
      for (int i = 0; i < kN; ++i) fit.codes.code[i].at[g] = second.codes.code[i].at[g];
    }
  }
}

template <int kN, int kGroupsPerUnit>
void FitGroups(const Tile<kN>& tile, const GroupedType& type, GroupedFit<kN>& fit) {
  PerGroup scale;
  PerGroup min;
  const bool with_min = type.min_high > 0;
  for (int lane = 0; lane < kGroups; lane += kLanes) {
    if (with_min) {
      const AffineFit group =
          SearchAffine(tile, lane, type.code_high, false, type.grid, type.other);
      scale.lanes(lane) = group.scale;
      min.lanes(lane) = -group.min;
    } else {
      const Uniform codes{type.code_low, type.code_high};
      scale.lanes(lane) = SearchScale(tile, lane, codes, type.grid, type.other);
    }
  }
  for (int first = 0; first < kGroups; first += kGroupsPerUnit) {
    const int largest = with_min ? type.scale_high : type.scale_low;
    SetFactor<kGroupsPerUnit>(tile, scale, first, largest, fit.factor);
    if (with_min) SetFactor<kGroupsPerUnit>(tile, min, first, type.min_high, fit.min_factor);
  }
  for (int lane = 0; lane < kGroups; lane += kLanes) {
    RefineGroups(tile, lane, type, scale.lanes(lane), min.lanes(lane), fit);
    QuantizeGroups(tile, lane, type, fit);
  }
  GroupedFit<kN> second = fit;
  second.error = GroupedFit<kN>::Unfitted();
  for (int first = 0; first < kGroups; first += kGroupsPerUnit) {
    RefitFactors<kN, kGroupsPerUnit>(tile, first, second);
  }
  for (int lane = 0; lane < kGroups; lane += kLanes) {
    RefineGroups(tile, lane, type, second.factor.lanes(lane) * second.scale.lanes(lane),
                 second.min_factor.lanes(lane) * second.min.lanes(lane), second);
    QuantizeGroups(tile, lane, type, second);
  }
  TakeBetter<kN, kGroupsPerUnit>(second, fit);
}

// Calls pack(block, tile, fit, first group) for every super block.
template <typename Block, int kN, typename Pack>
void EncodeGrouped(const Source& source, const GroupedType& type, Block* blocks, const Pack& pack) {
  constexpr int kPerBlock = kSuperBlock / kN;
  const int64_t count = source.elements / kSuperBlock;
  Tile<kN> tile;
  for (int64_t first = 0; first < count; first += kGroups / kPerBlock) {
    LoadTile<kN, kPerBlock>(source, first * kPerBlock, tile);
    GroupedFit<kN> fit;
    FitGroups<kN, kPerBlock>(tile, type, fit);
    for (int64_t b = first; b < count && b < first + kGroups / kPerBlock; ++b) {
      pack(blocks[b], tile, fit, static_cast<int>(b - first) * kPerBlock);
    }
  }
}

}  // namespace
}  // namespace thinwire::blocks::THINWIRE_ISA
