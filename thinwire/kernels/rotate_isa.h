// The loops of rotate.h; checks are the caller's.
#pragma once

#include "thinwire/kernels/per_isa.h"
#include "thinwire/kernels/rotate.h"

namespace thinwire::kernels {

constexpr int64_t kLargestWidth = 128;

// A segment's signs as 1 and -1.
struct Signs {
  alignas(64) float values[kLargestWidth];
};

// `out` is fp32 at any address.
THINWIRE_PER_ISA(void RotateForth(const Signs& signs, int64_t width, const Rows& rows,
                                  ConstArray in, std::byte* out);
                 void RotateBack(const Signs& signs, int64_t width, const Rows& rows, ConstArray in,
                                 std::byte* out);)

}  // namespace thinwire::kernels
