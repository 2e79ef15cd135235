// The loops of difference.h; checks are the caller's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "thinwire/base/dtype.h"
#include "thinwire/kernels/per_isa.h"

namespace thinwire::kernels {

THINWIRE_PER_ISA(void Subtract(const std::byte* a, DType a_dtype, const std::byte* b, DType b_dtype,
                               float* out, int64_t size);
                 void AddTo(const std::byte* term, DType term_dtype, std::byte* sum,
                            DType sum_dtype, int64_t size);)

}  // namespace thinwire::kernels
