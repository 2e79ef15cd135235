// A step before it runs: a simulation of what the engine does, event by event. The caller's thread
// computes, acquires, reduces and updates; the two lanes run the exchanges of the plan in the order
// of its program, with their windows; messages queue on the links; all of them share the cores of a
// rank.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "thinwire/planner/machine.h"
#include "thinwire/planner/work.h"
#include "thinwire/zero/plan.h"

namespace thinwire::planner {

struct StepPrediction {
  double seconds = 0;  // of a step, from the end of the one before
  // What a lane spends on each hop, as zero::Traffic::seconds counts it.
  std::array<double, zero::kHops> hop_seconds{};
  double slow_link_s = 0;  // in which the slow link carries something
  double compute_s = 0;    // the caller's thread, in forward and backward
  double optimizer_s = 0;  // the same in the step
  double exposed_s = 0;    // it waits: for weights, buffers, the last reduction, other ranks
  int64_t slow_bytes_per_host = 0;
};

// `work` is by unit. A plan whose micro_batches are 0 is taken to have one.
StepPrediction PredictStep(const zero::Plan& plan, const Machine& machine,
                           std::span<const UnitWork> work);

}  // namespace thinwire::planner
