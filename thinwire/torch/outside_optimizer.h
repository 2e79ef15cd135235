// An optimizer that is somebody else's code: called once per step with the stretches that this rank
// owns, as tensors. What it keeps per element is in the engine's memory, and in its checkpoints.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "thinwire/optim/optimizer.h"

namespace thinwire::adapter {

// A stretch of one parameter: 1-D fp32 tensors over the engine's memory, which stays where it is.
struct OwnedTensors {
  int group = 0;
  at::Tensor master;               // to be updated
  at::Tensor gradient;             // unscaled and clipped already; undefined: none
  std::vector<at::Tensor> states;  // zero before the first step and after a load without them
};
using OutsideStep = std::function<void(const std::vector<OwnedTensors>&)>;

// `name` is the one that ranks compare and checkpoints hold, as they hold the `states`, of which
// there are at most optim::kMostStates.
optim::OptimizerPtr MakeOutsideOptimizer(std::string name, std::vector<std::string> states,
                                         OutsideStep step);

}  // namespace thinwire::adapter
