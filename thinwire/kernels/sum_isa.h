// The loops of sum.h; checks are the caller's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "thinwire/base/dtype.h"
#include "thinwire/kernels/per_isa.h"

namespace thinwire::kernels {

// Add: out = a + b[0] + ... + b[count - 1], 1 <= count <= kMaxAddends. `a` may be `out` itself.
constexpr int kMaxAddends = 3;
THINWIRE_PER_ISA(void Add(const std::byte* a, DType a_dtype, const std::byte* const* b, int count,
                          DType b_dtype, std::byte* out, int64_t size);
                 void Divide(float* x, float divisor, int64_t size);
                 double SumOfSquares(const float* x, int64_t size);)

}  // namespace thinwire::kernels
