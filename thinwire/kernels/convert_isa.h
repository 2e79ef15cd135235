// The loops of convert.h; checks are the caller's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "thinwire/base/dtype.h"
#include "thinwire/kernels/per_isa.h"

namespace thinwire::kernels {

THINWIRE_PER_ISA(void Convert(const std::byte* in, DType in_dtype, std::byte* out, DType out_dtype,
                              int64_t size);)

}  // namespace thinwire::kernels
