// The loops of quantize.h; checks are the caller's.
#pragma once

#include "thinwire/kernels/per_isa.h"
#include "thinwire/kernels/quantize.h"

namespace thinwire::kernels {

// Terms that one pass of SumBlocks adds.
constexpr int kTermsPerPass = 16;

// Terms of one pass: size elements from `begin` on, a multiple of the block.
struct TermPass {
  const BlockTerm* terms;
  int count;
  bool accumulate;
  int64_t begin;
  int64_t size;
};

// Blocks that SumQuantize leaves to others, ascending.
struct OtherBlocks {
  int64_t indices[64];
  int count = 0;

  THINWIRE_INLINE int Room() const { return 64 - count; }
  THINWIRE_INLINE void Add(int64_t index) { indices[count++] = index; }
};

THINWIRE_PER_ISA(void Quantize(const BlockFormat& format, ScaleChoice choice, ConstArray in,
                               MutableBlocks out);
                 void Dequantize(const BlockFormat& format, ConstBlocks in, Array out);
                 void SumBlocks(const BlockFormat& format, const TermPass& pass, float* out);

                 // DequantizeSumQuantize for blocks of a pass whose begin and size count blocks,
                 // without own terms; `out` begins with the pass. Stops where `others` may not have
                 // room, or at once where there is no fast way at all. Returns the blocks that are
                 // done or among the others.
                 int64_t SumQuantize(const BlockFormat& format, const TermPass& pass,
                                     MutableBlocks out, OtherBlocks& others);)

}  // namespace thinwire::kernels
