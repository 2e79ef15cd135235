// Sums of arrays in a fixed order, and the reductions that a step needs. Every result has the same
// bits on every instruction set and whatever the alignment or tail length; a NaN that arithmetic
// returns is the positive quiet one without payload.
#pragma once

#include <span>

#include "thinwire/base/context.h"
#include "thinwire/base/dtype.h"

namespace thinwire::kernels {

// out = (accumulate ? out : 0) + terms[0] + terms[1] + ..., left to right, in fp32. Without
// `accumulate` the first term is copied, and no terms give zeros. Terms may be of different dtypes
// and start at any byte; sizes must agree with out's, and none may overlap out. Allocates nothing.
void SumInOrder(const ExecContext& context, std::span<const ConstArray> terms, bool accumulate,
                std::span<float> out);

// x /= divisor, exactly rounded.
void Divide(const ExecContext& context, std::span<float> x, float divisor);

// The sum of squares in fp64: 16 lanes by index mod 16, each summed in index order, then the lanes
// in a fixed tree (i += i + 8, + 4, + 2, + 1). NaN and inf give NaN or inf.
double SumOfSquares(const ExecContext& context, std::span<const float> x);

}  // namespace thinwire::kernels
