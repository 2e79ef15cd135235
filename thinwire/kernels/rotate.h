// Rotation of elements by seeded signs and a Walsh-Hadamard transform, which spreads a few large
// elements over their neighbours: what follows a heavy tail quantizes like a normal distribution.
// Every result has the same bits on every instruction set.
//
//   segment   consecutive elements that are rotated together. They begin at the start of the array
//             and of each row: as many as possible of `width` elements, then of the powers of two
//             below, each at most once, so that every element is in one. A row of zeros stays one,
//             of either sign.
//   forth     element i of a segment of w is multiplied by sign i / sqrt(w), rounded to fp32 (the
//             factor, too). Then, for d = 1, 2, 4, ..., w/2 in order, each two elements i and i +
//             d, where i has no bit d, become their sum and their difference, rounded to fp32.
//   back      the same additions, and then the multiplication. The inverse but for rounding;
//   lengths
//             and inner products stay.
//   sign i    + where bit i % 64 of CounterRandom(seed).Bits(i / 64) is 0: the same in all
//   segments.
//
// An element that is not finite makes its whole segment so: inf or NaN (0x7fc00000). So may finite
// ones of a magnitude above 2^127 / sqrt(w). Subnormal numbers are used as IEEE 754 has them.
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "thinwire/kernels/low_bits.h"

namespace thinwire::kernels {

struct Rotation {
  int64_t width = 32;  // 32 or 128
  uint64_t seed = 0;
};

// An array of rows of `length` elements, of the first of which it has the `first` last ones (1 to
// length) and of the last one perhaps only a part.
struct Rows {
  int64_t length = INT64_MAX;
  int64_t first = INT64_MAX;
};

// `out` has in.size elements and is `in` itself or does not overlap it.
void Rotate(const ExecContext& context, const Rotation& rotation, const Rows& rows, ConstArray in,
            std::span<float> out);
void RotateBack(const ExecContext& context, const Rotation& rotation, const Rows& rows,
                std::span<const float> in, std::span<float> out);

// How a block's scale is chosen, of those that its code has.
using ScaleRule = std::variant<ScaleChoice, Clip>;
void QuantizeBy(const ExecContext& context, const BlockFormat& format, const ScaleRule& rule,
                ConstArray in, MutableBlocks out);

// Rotate, then QuantizeBy: the same bits, in tiles that stay in the cache.
void RotateQuantize(const ExecContext& context, const Rotation& rotation, const Rows& rows,
                    const BlockFormat& format, const ScaleRule& rule, ConstArray in,
                    MutableBlocks out);

// Dequantize to fp32, then RotateBack, then rounded to out.dtype; in tiles, too.
void DequantizeRotateBack(const ExecContext& context, const Rotation& rotation, const Rows& rows,
                          const BlockFormat& format, ConstBlocks in, Array out);

}  // namespace thinwire::kernels
