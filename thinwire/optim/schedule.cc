#include "thinwire/optim/schedule.h"

#include <cmath>
#include <numbers>

#include "thinwire/base/error.h"

namespace thinwire::optim {

void Validate(const ScheduleOptions& options) {
  if (!(options.peak > 0 && std::isfinite(options.peak))) {
    throw UsageError(StrCat("learning rate: expected a positive number, found ", options.peak));
  }
  if (!(options.floor_ratio >= 0 && options.floor_ratio <= 1)) {
    throw UsageError(
        StrCat("learning rate floor: expected a part of the peak between 0 and 1, found ",
               options.floor_ratio));
  }
  if (options.total_steps < 1) {
    throw UsageError(StrCat("steps: expected at least 1, found ", options.total_steps));
  }
  if (options.warmup_steps < 0 || options.warmup_steps > options.total_steps) {
    throw UsageError(StrCat("warm-up steps: expected 0 to ", options.total_steps,
                            " (all steps), found ", options.warmup_steps));
  }
}

double LearningRate(const ScheduleOptions& options, int64_t step) {
  THINWIRE_CHECK(step >= 0, "step ", step);
  if (step >= options.total_steps) return options.peak * options.floor_ratio;
  const auto since_start = static_cast<double>(step);
  const auto warmup = static_cast<double>(options.warmup_steps);
  if (step < options.warmup_steps) return options.peak * (since_start + 1) / (warmup + 1);
  const double progress =
      (since_start - warmup) / (static_cast<double>(options.total_steps) - warmup);
  const double above_floor = (1 + std::cos(std::numbers::pi * progress)) / 2;
  return options.peak * (options.floor_ratio + (1 - options.floor_ratio) * above_floor);
}

}  // namespace thinwire::optim
