// Dynamic loss scaling for fp16 (Micikevicius et al., Mixed Precision Training, 2018, section 3.2):
// backward starts from loss x scale, so that small gradients stay above fp16's smallest number; a
// step whose gradients hold inf or NaN is skipped and halves the scale, a run of good steps doubles
// it. Scales are powers of two: multiplying and dividing by them is exact.
#pragma once

#include <cstdint>

namespace thinwire::optim {

struct LossScale {
  double scale = 65536;    // where torch.amp.GradScaler starts, too
  int64_t good_steps = 0;  // since the scale changed
};

class LossScaler {
 public:
  static constexpr int64_t kGrowthInterval = 1000;  // good steps until the scale doubles
  static constexpr double kLargest = 0x1p24;        // fp16's smallest subnormal is 2^-24
  static constexpr double kSmallest = 1;

  // Where `enabled` is false the scale is 1 and stays there.
  explicit LossScaler(bool enabled) : enabled_(enabled) {}

  double scale() const { return enabled_ ? state_.scale : 1; }
  const LossScale& state() const { return state_; }
  void Restore(const LossScale& state) { state_ = state; }

  // After each step: whether its gradients were finite. Throws UsageError when they are not at the
  // smallest scale either.
  void Update(bool finite);

 private:
  bool enabled_;
  LossScale state_;
};

}  // namespace thinwire::optim
