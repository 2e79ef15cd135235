// Quantization by blocks below one byte with scales that clip: 3-bit and ternary codes, and int4
// (quantize.h says what blocks are, how they are decoded and added). Every result has the same bits
// on every instruction set, whatever the alignment or tail length.
//
// The number format (it is sent over wires; low_bits_test.cc holds golden bytes). With m the
// largest magnitude in a block and L = 8 (int4), 4 (int3), 1 (ternary):
//
//   reach    what the code of largest magnitude stands for: factor * m, or factor * the root mean
//            square of the block. All in fp32; for the latter elements are scaled by the power of
//            two that brings m to [1, 2) (of m from 2^127 on to [2, 4)), element i of the block
//            adds its square to sum i % 32 in order, sums 16, 8, 4, 2, 1 apart are added, then
//            divided by the number of elements.
//   scale s  reach / L, up to bf16 in magnitude. int4 and int3: with the sign opposite to that of
//            the element of largest magnitude, ternary: positive. At least 2^-125 and at most
//            0x7dff (int4), 0x7e7f (int3), 0x7f7f (ternary). m = 0: s = 0. NaN or inf: s = NaN
//            (0x7fc0).
//   code     x * (1/s), both operations rounded to fp32, bounded to [-L, L - 1] (ternary: [-1, 1]),
//            then to the nearest integer, ties to even. All codes are 0 where s is 0 or NaN.
//   storage  int4   as in quantize.h
//            int3   two's complement, code i of eight from bit 3 i on of 3 bytes, little-endian; an
//                   array of n ends after 3 n bits, rounded up to bytes, unused bits are 0
//            ternary  five codes to a byte, whatever the block: of each 160 elements of the array,
//                   code j, j + 32, ..., j + 128 in byte j (so that vectors need no shuffles); of
//                   the last n < 160, with t = n / 5 rounded up, code j, j + t, ... in byte j, and
//                   0 where there is none. With digits code + 1 and the first one highest, five
//                   are a number d from 0 to 242; the byte is d + (55 d + 1003) / 1024, rounded
//                   down. The other way, byte b has the first five digits of b / 256 in base 3,
//                   which any byte has.
//   value    code * s, in fp32 an exact product. A scale that no block gives reads as NaN.
//
// Error of a finite element x, with h = (1/2 + 2^-16) |s|: at most h while |x| <= (L + 1/2) |s| on
// the side of -L, and (L - 1/2) |s| (ternary: 3/2 |s|) on the other side; beyond, what |x| exceeds
// the last code by. |s| >= reach / L but where the largest scale is below that, and
// |s| <= max(reach / L (1 + 2^-7), 2^-125).
//
// Root mean squares want subnormal numbers as IEEE 754 has them: where a mode that flushes them is
// set, blocks with m below 2^-100 may get other scales.
#pragma once

#include "thinwire/kernels/quantize.h"

namespace thinwire::kernels {

struct Clip {
  enum class Basis : uint8_t { kMax, kRms };
  Basis basis = Basis::kMax;
  float factor = 1;  // in (0, kLargestClip]
};
constexpr float kLargestClip = 8;

// With these the squared error of normally distributed elements in blocks of 128 is within 1 % of
// the least that any factor gives.
constexpr Clip kInt4Clip{Clip::Basis::kMax, 0.95f};
constexpr Clip kInt3Clip{Clip::Basis::kMax, 0.85f};
constexpr Clip kTernaryClip{Clip::Basis::kMax, 0.5f};

void QuantizeClipped(const ExecContext& context, const BlockFormat& format, const Clip& clip,
                     ConstArray in, MutableBlocks out);

}  // namespace thinwire::kernels
