#include "thinwire/optim/loss_scaler.h"

#include <algorithm>

#include "thinwire/base/error.h"

namespace thinwire::optim {

void LossScaler::Update(bool finite) {
  if (!enabled_) return;
  if (finite) {
    if (++state_.good_steps == kGrowthInterval) {
      state_ = {std::min(2 * state_.scale, kLargest), 0};
    }
    return;
  }
  if (state_.scale <= kSmallest) {
    throw UsageError(StrCat("the gradients hold inf or NaN even at a loss scale of ", kSmallest,
                            ", so they do not fit fp16: set training.compute to bf16"));
  }
  state_ = {state_.scale / 2, 0};
}

}  // namespace thinwire::optim
