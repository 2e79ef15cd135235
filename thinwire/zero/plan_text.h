// A plan in words; Describe() is in zero/plan.h.
#pragma once

#include <string>

#include "thinwire/zero/plan.h"

namespace thinwire::zero {

// The types that the units compute in, in order and each once: "bf16 and fp32".
std::string TypesOf(const Plan& plan);

}  // namespace thinwire::zero
