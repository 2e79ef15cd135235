// Only for encode_isa.cc: scales, and scales with a min, under which codes miss their weights
// least.
//
// Given codes q, the best scale is a least-squares fit; given a scale, the best codes are the
// nearest ones. So scales are tried from a grid around the one that just reaches the largest
// weight, each is judged by the fit of its codes, and the best one is refined by doing both in
// turn.
#pragma once

#include "thinwire/blocks/encode_lanes-inl.h"

namespace thinwire::blocks::THINWIRE_ISA {
namespace {

// Scales to try: those under which the largest weight has the code `first`, `first` + `step` ...
struct Grid {
  float first;
  float step;
  int count;

  THINWIRE_INLINE constexpr float At(int i) const { return first + step * static_cast<float>(i); }
};

constexpr int kWide = 10;  // candidates beyond a grid: 1.1, 1.2 ... 2 times its end

// Codes low..high that are their own values.
struct Uniform {
  int low;
  int high;

  THINWIRE_INLINE Floats operator()(Floats x) const { return RoundWithin(x, low, high); }
};

// Codes that stand for values of a table: how much is added to the first value at each of the
// midpoints between two values.
template <int kValues>
struct Stepped {
  float least;
  float midpoints[size_t{kValues - 1}];
  float steps[size_t{kValues - 1}];

  THINWIRE_INLINE Floats operator()(Floats x) const {
    Floats value = All(least);
    for (int i = 0; i < kValues - 1; ++i) value += x > midpoints[i] ? All(steps[i]) : Floats{};
    return value;
  }
};

struct ScaleFit {
  Floats scale{};
  Floats gain = All(-1.0f);  // the squared error is that of all zeros less this
};

template <int kN, typename Codes>
THINWIRE_INLINE void TryScale(const Tile<kN>& tile, int lane, const Codes& codes, Floats inverse,
                              ScaleFit& best) {
  Floats xq{};
  Floats qq{};
  for (int i = 0; i < kN; ++i) {
    const Floats x = tile.x[i].lanes(lane);
    const Floats q = codes(x * inverse);
    const Floats weighted = tile.weight[i].lanes(lane) * q;
    xq += weighted * x;
    qq += weighted * q;
  }
  const Floats scale = xq * Inverse(qq);
  const Floats gain = scale * xq;
  const Ints better = gain > best.gain;
  best.scale = better ? scale : best.scale;
  best.gain = better ? gain : best.gain;
}

// x = scale * code. The grids are for the largest absolute value at either sign: a negative scale
// gives it the code that the other sign reaches.
template <int kN, typename Codes>
THINWIRE_INLINE Floats SearchScale(const Tile<kN>& tile, int lane, const Codes& codes,
                                   const Grid& negative, const Grid& positive) {
  Floats largest{};
  for (int i = 0; i < kN; ++i) {
    const Floats x = tile.x[i].lanes(lane);
    largest = Abs(x) > Abs(largest) ? x : largest;
  }
  const Floats reach = Inverse(largest);
  ScaleFit best;
  for (int c = 0; c < negative.count; ++c) {
    TryScale(tile, lane, codes, negative.At(c) * reach, best);
  }
  for (int c = 0; c < positive.count; ++c) {
    TryScale(tile, lane, codes, positive.At(c) * reach, best);
  }
  for (int c = 1; tile.weighted && c <= kWide; ++c) {
    const float further = 1.0f + 0.1f * static_cast<float>(c);
    TryScale(tile, lane, codes, further * negative.At(0) * reach, best);
    TryScale(tile, lane, codes, further * positive.At(positive.count - 1) * reach, best);
  }
  for (int round = 0; round < 2; ++round) {
    TryScale(tile, lane, codes, Inverse(best.scale), best);
  }
  return best.scale;
}

// The codes nearest to (x - min) / scale.
template <int kN, typename Codes>
THINWIRE_INLINE void Quantize(const Tile<kN>& tile, int lane, const Codes& codes, Floats scale,
                              Floats min, TileCodes<kN>& out) {
  const Floats inverse = Inverse(scale);
  for (int i = 0; i < kN; ++i) {
    out.code[i].lanes(lane) = codes((tile.x[i].lanes(lane) - min) * inverse);
  }
}

// Sums over a group's elements of y = x - low and its codes.
struct AffineSums {
  Floats w{}, y{}, yy{}, q{}, qq{}, yq{};
};

struct AffineFit {
  Floats scale{};
  Floats min{};  // x = scale * code + min
  Floats error = All(__builtin_huge_valf());
};

// The best scale and min for the codes summed up; a min above zero only where it is free.
THINWIRE_INLINE void TakeIfBetter(const AffineSums& sums, Floats low, bool free_min,
                                  AffineFit& best) {
  const Floats determinant = sums.w * sums.qq - sums.q * sums.q;
  Floats scale = (sums.w * sums.yq - sums.y * sums.q) * Inverse(determinant);
  Floats offset = (sums.y - scale * sums.q) * Inverse(sums.w);
  if (!free_min) {
    const Ints above = offset + low > 0.0f;
    offset = above ? -low : offset;
    scale = above ? (sums.yq - offset * sums.q) * Inverse(sums.qq) : scale;
  }
  const Floats error = sums.yy + scale * (scale * sums.qq + 2.0f * (offset * sums.q - sums.yq)) +
                       offset * (offset * sums.w - 2.0f * sums.y);
  const Ints better = error < best.error;
  best.scale = better ? scale : best.scale;
  best.min = better ? offset + low : best.min;
  best.error = better ? error : best.error;
}

template <int kN>
THINWIRE_INLINE void TryAffine(const Tile<kN>& tile, int lane, int most, Floats low, Floats inverse,
                               Floats phase, AffineSums sums, bool free_min, AffineFit& best) {
  for (int i = 0; i < kN; ++i) {
    const Floats y = tile.x[i].lanes(lane) - low;
    const Floats q = RoundWithin(y * inverse - phase, 0, most);
    const Floats weighted = tile.weight[i].lanes(lane) * q;
    sums.q += weighted;
    sums.qq += weighted * q;
    sums.yq += weighted * y;
  }
  TakeIfBetter(sums, low, free_min, best);
}

// x = scale * code + min with codes 0..most. `grid` is of the code of the largest x while the
// smallest has code 0, less a phase from `phases`.
template <int kN>
THINWIRE_INLINE AffineFit SearchAffine(const Tile<kN>& tile, int lane, int most, bool free_min,
                                       const Grid& grid, const Grid& phases) {
  Floats low = tile.x[0].lanes(lane);
  Floats high = low;
  for (int i = 1; i < kN; ++i) {
    low = Min(low, tile.x[i].lanes(lane));
    high = Max(high, tile.x[i].lanes(lane));
  }
  if (!free_min) low = Min(low, Floats{});
  AffineSums sums;
  for (int i = 0; i < kN; ++i) {
    const Floats w = tile.weight[i].lanes(lane);
    const Floats y = tile.x[i].lanes(lane) - low;
    sums.w += w;
    sums.y += w * y;
    sums.yy += w * y * y;
  }
  const Floats reach = Inverse(high - low);
  AffineFit best;
  for (int c = 0; c < grid.count; ++c) {
    for (int p = 0; p < phases.count; ++p) {
      TryAffine(tile, lane, most, low, grid.At(c) * reach, All(phases.At(p)), sums, free_min, best);
    }
  }
  for (int c = 1; tile.weighted && c <= kWide; ++c) {
    const float code = grid.At(grid.count - 1) * (1.0f + 0.1f * static_cast<float>(c));
    // Held back at the upper end, at the lower one, and between.
    for (int p = 0; p <= 4; ++p) {
      const float phase = 0.25f * static_cast<float>(p) * (code - static_cast<float>(most));
      TryAffine(tile, lane, most, low, code * reach, All(phase), sums, free_min, best);
    }
  }
  for (int round = 0; round < 2; ++round) {
    const Floats inverse = Inverse(best.scale);
    TryAffine(tile, lane, most, low, inverse, (best.min - low) * inverse, sums, free_min, best);
  }
  return best;
}

}  // namespace
}  // namespace thinwire::blocks::THINWIRE_ISA
