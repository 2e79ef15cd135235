// The loops of activations.h; checks are the caller's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "thinwire/kernels/per_isa.h"

namespace thinwire::blocks {

// Store one token's row in its slot of a tile of `width` tokens.
THINWIRE_PER_ISA(void SetInt8Token(const float* row, int64_t columns, std::byte* tile,
                                   int64_t width, int64_t slot);
                 void SetFloatToken(const float* row, int64_t columns, std::byte* tile,
                                    int64_t width, int64_t slot);)

}  // namespace thinwire::blocks
