// The loops of low_bits.h; checks are the caller's.
#pragma once

#include "thinwire/kernels/low_bits.h"
#include "thinwire/kernels/per_isa.h"
#include "thinwire/kernels/quantize_isa.h"

namespace thinwire::kernels {

THINWIRE_PER_ISA(void QuantizeClipped(const BlockFormat& format, const Clip& clip, ConstArray in,
                                      MutableBlocks out);

                 // int3 and ternary. A pass begins at element 0 and has all there are.
                 void DequantizeLowBits(const BlockFormat& format, ConstBlocks in, Array out);
                 void SumLowBits(const BlockFormat& format, const TermPass& pass, float* out);)

}  // namespace thinwire::kernels
