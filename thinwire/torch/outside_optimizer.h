// An optimizer that is somebody else's code: called once per step with the stretches that this rank
// owns, as tensors. What it keeps per element is its own business.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "thinwire/optim/optimizer.h"

namespace thinwire::adapter {

// A stretch of one parameter: 1-D fp32 tensors over the engine's memory, which stays where it is.
struct OwnedTensors {
  int64_t parameter = 0;  // counted over all units
  int64_t offset = 0;     // in the flattened parameter
  int group = 0;
  at::Tensor master;    // to be updated
  at::Tensor gradient;  // unscaled and clipped already
};
using OutsideStep = std::function<void(const std::vector<OwnedTensors>&)>;

// `name` is the one that ranks compare and checkpoints hold.
optim::OptimizerPtr MakeOutsideOptimizer(std::string name, OutsideStep step);

}  // namespace thinwire::adapter
