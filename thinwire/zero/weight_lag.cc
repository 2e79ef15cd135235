#include "thinwire/zero/weight_lag.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "thinwire/base/error.h"

namespace thinwire::zero {

WeightLag::WeightLag(size_t units, int64_t period)
    : period_(period), updates_(units), full_until_(units), due_(units, 1) {
  THINWIRE_CHECK(period >= 1, "full values every ", period, " steps");
}

bool WeightLag::IsMeasured(int64_t step) const {
  for (size_t u = 0; u < due_.size(); ++u) {
    if (IsMeasured(u, step)) return true;
  }
  return false;
}

std::vector<size_t> WeightLag::Judge(int64_t step, std::span<const double> sums) {
  THINWIRE_CHECK(sums.size() == kSums * updates_.size(), sums.size(), " sums");
  measured_at_ = step;
  std::vector<size_t> fell_back;
  for (size_t u = 0; u < updates_.size(); ++u) {
    if (!IsMeasured(u, step)) continue;
    due_[u] = (step / kEvery + 1) * kEvery;
    const double sent = sums[kSums * u];
    const double lost = sums[kSums * u + 1] - kRounding * kRounding * sums[kSums * u + 2];
    // NaN counts as lost: no difference brings a weight that is no number back to its master.
    const double lost_part = sent == 0 ? 0 : std::sqrt(std::max(lost, 0.0) / sent);
    updates_[u] =
        lost_part < 1 ? lost_part / (1 - lost_part) : std::numeric_limits<double>::infinity();
    if (!(updates_[u] > kMost)) continue;
    full_until_[u] = step + 1 + period_;
    fell_back.push_back(u);
  }
  return fell_back;
}

void WeightLag::Forget(int64_t step) {
  std::ranges::fill(full_until_, 0);
  std::ranges::fill(updates_, 0.0);
  std::ranges::fill(due_, step + 1);
  measured_at_ = 0;
}

bool WeightLag::IsFull(size_t unit, int64_t step) const {
  // Turns are spread over the period, so that no step carries all units.
  const int64_t turn = static_cast<int64_t>(unit) * period_ / std::ssize(updates_);
  return FellBack(unit, step) || (step + turn) % period_ == 0;
}

}  // namespace thinwire::zero
