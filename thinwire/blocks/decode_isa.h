// The loops of decode.h for types that come in blocks; checks are the caller's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "thinwire/base/weight_type.h"
#include "thinwire/kernels/per_isa.h"

namespace thinwire::blocks {

THINWIRE_PER_ISA(void DecodeBlocks(WeightType type, const std::byte* blocks, int64_t count,
                                   float* values);)

}  // namespace thinwire::blocks
