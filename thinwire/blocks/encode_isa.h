// The searches of encode.h for types that come in blocks; checks are the caller's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "thinwire/base/weight_type.h"
#include "thinwire/kernels/per_isa.h"

namespace thinwire::blocks {

THINWIRE_PER_ISA(
    // The bits of the largest absolute value: above 0x7f800000 for NaN.
    uint32_t LargestBits(const float* values, int64_t size);

    // `rows` of `columns` each, `elements` in all; `importance` of a column, or null.
    void EncodeBlocks(WeightType type, const float* rows, const float* importance, int64_t columns,
                      int64_t elements, std::byte* blocks);)

}  // namespace thinwire::blocks
