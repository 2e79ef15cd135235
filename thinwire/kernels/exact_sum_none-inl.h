// Only for sum_quantize_isa.cc: the instruction sets for which exact_sum-inl.h is not written.
#pragma once

#include "thinwire/kernels/quantize_isa.h"

namespace thinwire::kernels::THINWIRE_ISA {

int64_t SumQuantize(const BlockFormat&, const TermPass&, MutableBlocks, OtherBlocks&) { return 0; }

}  // namespace thinwire::kernels::THINWIRE_ISA
