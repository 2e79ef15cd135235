// How long the model itself computes.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/zero/plan.h"

namespace thinwire::planner {

// Seconds of one micro-batch in one unit, alone on the machine.
struct UnitWork {
  double forward_s = 0;
  double backward_s = 0;
};

// Operations per parameter of a matrix and token: a multiplication and an addition, in backward
// once for the inputs and once for the weights. Attention itself is left out: a few percent of it
// at the usual lengths.
constexpr double kForwardOperations = 2;
constexpr double kBackwardOperations = 4;

// `seconds` of computing in a micro-batch, split over the units as their operations are; forward
// and backward alike. Units that are only looked up in (UnitSpec::weights_in_backward is false)
// and vectors count nothing.
std::vector<UnitWork> SplitWork(const std::vector<zero::UnitLayout>& units, double seconds);

// Operations of one micro-batch of `tokens`.
double OperationsOf(const std::vector<zero::UnitLayout>& units, int64_t tokens);

}  // namespace thinwire::planner
