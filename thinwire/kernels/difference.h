// Differences of arrays, and adding them back: what weights travel as when the receiver has those
// of the step before. Every result has the same bits on every instruction set.
#pragma once

#include <span>

#include "thinwire/base/context.h"
#include "thinwire/base/dtype.h"

namespace thinwire::kernels {

// out = a - b, rounded to fp32. Sizes must agree; arrays may start at any byte. `out` overlaps
// neither, or is `a`.
void Subtract(const ExecContext& context, ConstArray a, ConstArray b, std::span<float> out);

// sum += term, the addition rounded to fp32 and then to sum.dtype. They do not overlap.
void AddTo(const ExecContext& context, ConstArray term, Array sum);

// The sum of squares of a - b, each difference rounded to fp32, in fp64; the order of additions is
// fixed. NaN and inf give NaN or inf.
double SquaredDistance(const ExecContext& context, ConstArray a, ConstArray b);

}  // namespace thinwire::kernels
