// Conversion between fp32, bf16 and fp16, elementwise, rounding to nearest even; NaN stays NaN, by
// the rules of base/dtype.h. The same bits on every instruction set.
#pragma once

#include "thinwire/base/context.h"
#include "thinwire/base/dtype.h"

namespace thinwire::kernels {

// out[i] = in[i], bit for bit when the dtypes are equal; sizes must agree, the arrays must not
// overlap and may start at any byte.
void Convert(const ExecContext& context, ConstArray in, Array out);

}  // namespace thinwire::kernels
