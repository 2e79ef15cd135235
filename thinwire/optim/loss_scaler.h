// Dynamic loss scaling for fp16 (Micikevicius et al., Mixed Precision Training, 2018, section 3.2):
// backward starts from loss x scale, so that small gradients stay above fp16's smallest number; a
// step whose gradients hold inf or NaN is skipped and halves the scale, a run of good steps doubles
// it. Scales are powers of two: multiplying and dividing by them is exact.
#pragma once

#include <cstdint>

namespace thinwire::optim {

struct LossScaleOptions {
  double fixed = 0;             // > 0: the scale for good; 0: adapted, by the rest
  double initial = 65536;       // where torch.amp.GradScaler starts, too
  double least = 1;             // it is not halved below this
  int64_t window = 1000;        // good steps in a row until it doubles
  int64_t hysteresis = 1;       // bad steps until it halves, counted since it last doubled
  bool each_good_step = false;  // a good step, too, starts that count again
};

struct LossScale {
  double scale = 65536;
  int64_t good_steps = 0;  // in a row, since the scale changed
  int64_t bad_steps = 0;   // that hysteresis let pass
};

// Of all they hold, so that ranks can agree on them.
uint64_t Fingerprint(const LossScaleOptions& options);
uint64_t Fingerprint(const LossScale& state);

class LossScaler {
 public:
  static constexpr double kLargest = 0x1p24;  // fp16's smallest subnormal is 2^-24

  // Where `enabled` is false the scale is 1 and stays there. Throws UsageError for options that are
  // out of range: scales in (0, kLargest], counts >= 1, least <= initial.
  explicit LossScaler(bool enabled, const LossScaleOptions& options = {});

  double scale() const {
    if (!enabled_) return 1;
    return options_.fixed > 0 ? options_.fixed : state_.scale;
  }
  // Where a run begins.
  LossScale Initial() const;
  const LossScale& state() const { return state_; }
  void Restore(const LossScale& state) { state_ = state; }

  // After each step: whether its gradients were finite. Throws UsageError when it would have to go
  // below the least scale.
  void Update(bool finite);

 private:
  bool enabled_;
  LossScaleOptions options_;
  LossScale state_;
};

}  // namespace thinwire::optim
