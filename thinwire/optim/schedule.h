// The learning rate of each optimizer step: linear warm-up, then half a cosine down to a floor.
#pragma once

#include <cstdint>

namespace thinwire::optim {

struct ScheduleOptions {
  double peak = 3e-4;        // > 0
  double floor_ratio = 0.1;  // the floor as a part of the peak, in [0, 1]
  int64_t warmup_steps = 0;  // steps below the peak, in [0, total_steps]
  int64_t total_steps = 1;   // >= 1
};

// Throws UsageError naming the option that is out of its range.
void Validate(const ScheduleOptions& options);

// The rate of step 0, 1, ...: peak * (step + 1) / (warmup_steps + 1) during warm-up, so that no
// step is wasted at zero and step `warmup_steps` is the first at the peak. From there
//   peak * (floor_ratio + (1 - floor_ratio) * (1 + cos(pi * progress)) / 2),
//   progress = (step - warmup_steps) / (total_steps - warmup_steps),
// and the floor from step `total_steps` on. A function of the step alone: a resumed run needs no
// state. `options` must be valid and step >= 0.
double LearningRate(const ScheduleOptions& options, int64_t step);

}  // namespace thinwire::optim
