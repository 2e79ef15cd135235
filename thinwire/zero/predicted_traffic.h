// What the plan says that this rank sends in an optimizer step.
#pragma once

#include "thinwire/zero/plan.h"

namespace thinwire::zero {

// Bytes, messages and exchanges of a step of `passes` typical passes (every unit once forward and
// backward, in order), gathered as their compiled program gathers.
Traffic PredictTraffic(const Plan& plan, int passes);

}  // namespace thinwire::zero
