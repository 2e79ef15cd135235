// From blocks to fp32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "thinwire/base/context.h"
#include "thinwire/base/weight_type.h"

namespace thinwire::blocks {

// values = what `blocks` (at any byte address; a whole number of `type`'s blocks) stand for, by the
// formulas of formats.h, every operation rounded to fp32. `values` has just as many elements. The
// same bits on every instruction set, and those of the gguf package's and ggml's reference
// functions. NaN and inf in F32, F16, BF16 or in a block's scale come through.
void Decode(const ExecContext& context, WeightType type, std::span<const std::byte> blocks,
            std::span<float> values);

}  // namespace thinwire::blocks
