// The optimizers that thinwire brings itself; kernels/adamw.h and kernels/updates.h have their
// formulas.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {

OptimizerPtr MakeAdamW();  // states m, v
OptimizerPtr MakeAdam();   // m, v; weight decay in the gradient
// With `momentum` its buffer is kept; without it the momentum of every group must be 0.
OptimizerPtr MakeSgd(bool momentum);
OptimizerPtr MakeLion();  // m

// m, v. With the direction u of kernels/updates.h, for each parameter
//   p = p - lr * trust * u,  trust = |p| / |u| within [kLeastTrust, kMostTrust], 1 where one is 0,
// over the whole parameter, whichever ranks own it; the bounds are DeepSpeed's defaults.
constexpr double kLeastTrust = 0.01;
constexpr double kMostTrust = 10;
OptimizerPtr MakeLamb();

// adamw, adam, sgd, sgd_momentum, lion or lamb. Throws UsageError listing them.
OptimizerPtr ByName(std::string_view name);

}  // namespace thinwire::optim
