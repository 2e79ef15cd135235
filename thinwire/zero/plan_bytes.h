// What a plan sends over the slow link, in bytes.
#pragma once

#include <vector>

#include "thinwire/zero/plan.h"

namespace thinwire::zero {

// Per parameter, host and optimizer step, by the recipe's formula.
double FormulaBytes(const Plan& plan);
// What it adds to that that 1-D parameters are not coded.
double BytesOfVectors(const Plan& plan);
// What full values in place of differences add to an average step.
double BytesOfFullValues(const Plan& plan);

// Of this rank in a step whose passes gather these units, after entropy coding, of normally
// distributed elements; 0 where there is none. SlowBytesPerStep (zero/plan.h) has them before.
double CodedBytes(const Plan& plan, const std::vector<int>& gathered_units);

}  // namespace thinwire::zero
