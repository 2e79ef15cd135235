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

THINWIRE_PER_ISA(void Quantize(const BlockFormat& format, ScaleChoice choice, ConstArray in,
                               MutableBlocks out);
                 void Dequantize(const BlockFormat& format, ConstBlocks in, Array out);
                 void SumBlocks(const BlockFormat& format, const TermPass& pass, float* out);)

}  // namespace thinwire::kernels
