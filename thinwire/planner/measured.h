// What a run measured, as a file that `thinwire plan --measured` reads.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "thinwire/planner/choice.h"
#include "thinwire/planner/machine.h"

namespace thinwire::planner {

struct Measured {
  Machine machine;
  double flops = 0;  // that a rank alone reaches when it computes
};

nlohmann::ordered_json ToJson(const Machine& machine);
nlohmann::ordered_json ToJson(const Candidate& candidate, double parameters);

// Reads {"machine": ..., "flops": ...}; other keys are ignored. Throws UsageError with `source`
// and the key that is missing or makes no sense.
Measured ReadMeasured(std::string_view json, std::string_view source);

}  // namespace thinwire::planner
