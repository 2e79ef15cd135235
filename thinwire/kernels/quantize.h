// Quantization by blocks: elements as int8 or int4 codes with one bf16 scale per block. Every
// result has the same bits on every instruction set, whatever the alignment or tail length. Codes
// of 3 bits and ternary ones, and scales that clip, are in low_bits.h; blocks of all codes are
// decoded and added here.
//
// The number format (it is sent over wires; quantize_test.cc holds golden bytes):
//
//   block    `block` consecutive elements, the last one of an array shorter. 32 to 4096, a multiple
//            of 32.
//   scale s  one bf16 per block, little-endian. With m the largest magnitude in the block:
//              int8   m / 127, rounded to fp32, then up to bf16: positive
//              int4   m / 8, rounded away from zero to bf16, with the sign opposite to that of the
//                     element of largest magnitude (of +m and -m, +m counts)
//            at least 2^-125 in magnitude and at most 0x7c01 (int8) or 0x7dff (int4), which only
//            blocks of the tiniest and of the hugest numbers notice (block_scale.h says why).
//            m = 0: s = 0. An element that is NaN or inf: s = NaN (0x7fc0).
//   code     x * (1/s), both operations rounded to fp32, then to the nearest integer, ties to even.
//            int8: -127 to 127. int4: -8 to 7, a result of 8 becomes 7; the element of largest
//            magnitude has -8 unless s is the least. All codes are 0 where s is 0 or NaN.
//   storage  int8: two's complement, a byte each. int4: two's complement, even elements in the
//            lower half of a byte; the upper half of the last byte of an odd number is 0.
//   value    code * s, in fp32 an exact product; then rounded to the nearest bf16 or fp16 where one
//            of these is wanted. So one NaN or inf makes its whole block NaN, at every receiver. A
//            scale that no block gives (a magnitude outside the range above, inf) reads as NaN.
//
// Error of a finite element in fp32, with h = (1/2 + 2^-16) |s|:
//   int8     at most h, where s <= max(m/127 (1 + 2^-7), 2^-125)
//   int4     at most h on the side of the element of largest magnitude, and on the other one below
//            7.5 |s|. From there to 8 |s| up to |s|, because +8 has no code (1.04 |s| under the
//            largest scale); |s| <= max(m/8 (1 + 2^-7), 2^-125)
// Rounding to bf16 or fp16 adds half a unit of theirs. It may carry an int8 value within 0.8 % of
// their largest number to inf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "thinwire/base/context.h"
#include "thinwire/base/dtype.h"
#include "thinwire/kernels/block_scale.h"

namespace thinwire::kernels {

constexpr int64_t kBlockUnit = 32;
constexpr int64_t kLargestBlock = 4096;

struct BlockFormat {
  CodeType code = CodeType::kInt8;
  int64_t block = 128;

  // Where an array can be cut: codes before a multiple of it are those of an array of its own.
  int64_t Unit() const { return code == CodeType::kTernary ? 5 * block : block; }

  int64_t CodeBytes(int64_t size) const {
    switch (code) {
      case CodeType::kInt8:
        return size;
      case CodeType::kInt4:
        return size - size / 2;
      case CodeType::kInt3:
        return size / 8 * 3 + (size % 8 * 3 + 7) / 8;
      case CodeType::kTernary:
        return size / 5 + (size % 5 != 0);
    }
    return 0;
  }
  int64_t Blocks(int64_t size) const { return size / block + (size % block != 0); }
};

// The codes and scales of an array; each may start at any byte.
struct ConstBlocks {
  const std::byte* codes = nullptr;   // CodeBytes(size)
  const std::byte* scales = nullptr;  // 2 x Blocks(size)
};
struct MutableBlocks {
  std::byte* codes = nullptr;
  std::byte* scales = nullptr;

  operator ConstBlocks() const { return {codes, scales}; }  // NOLINT: as span<T> to span<const T>
};

// How Quantize chooses scales.
enum class ScaleChoice : uint8_t {
  kExtreme,   // as above
  kSearched,  // of this scale and kSearchSteps smaller ones the one of least squared error, where
              // codes beyond the range become the nearest in it: about 0.4 dB better for int4
};
// Candidate i has the scale (1 - i/16) s of kExtreme, rounded to the nearest bf16, but no smaller
// than 2^-125. Errors are compared in fp32, the first least one wins.
constexpr int kSearchSteps = 6;

// int8 and int4.
void Quantize(const ExecContext& context, const BlockFormat& format, ScaleChoice choice,
              ConstArray in, MutableBlocks out);

// `in` describes out.size elements.
void Dequantize(const ExecContext& context, const BlockFormat& format, ConstBlocks in, Array out);

// One summand: blocks, or an array as it is where own.data is set.
struct BlockTerm {
  ConstBlocks blocks;
  ConstArray own;
};

// out = (accumulate ? out : 0) + terms[0] + terms[1] + ..., left to right, with every addition
// rounded to fp32: the same bits as Dequantize to fp32 and then SumInOrder (sum.h). Allocates
// nothing.
void DequantizeSum(const ExecContext& context, const BlockFormat& format,
                   std::span<const BlockTerm> terms, bool accumulate, std::span<float> out);

// DequantizeSum over `terms` of `size` elements in `format`, quantized (kExtreme) in `out_code`
// with the same block: the same bits as both steps, without the sum in memory between them. `out`
// overlaps no term. Allocates nothing. int8 and int4.
//
// For sums that travel on in codes, which no path of the engine has at present: a reduce ends in
// fp32 on its one owner, and between the two hops the accumulator of a slice is fp32, too.
//
// Most blocks go a fast way, by integers, on AVX2 and AVX-512 when
//   - out_code = format.code, and there are 1 to 16 terms, none of them own
//   - the block is a multiple of: int4 128 (AVX-512), 64 (AVX2); int8 64 (AVX-512), 32 (AVX2).
// Of these, blocks do whose scales that are not 0 have binary exponents within 7 of each other, all
// from 2^-63 to 2^65, and few enough for exact sums (of 16 terms always, but with int8 only while
// the scales, in units of the last place of the least one, add up to 2^17). All else, the
// last short block, and everything on NEON and without vectors goes the general way: in tiles
// through DequantizeSum and Quantize.
void DequantizeSumQuantize(const ExecContext& context, const BlockFormat& format,
                           std::span<const BlockTerm> terms, int64_t size, CodeType out_code,
                           MutableBlocks out);

}  // namespace thinwire::kernels
