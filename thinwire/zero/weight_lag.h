// How well differences carry new weights (zero/recipe.h, Kept::kReference): a gauge by unit, and
// what follows from it.
//
// With d the differences that the owners coded in a step and e what the weights in use then still
// lack, a code loses the fraction q = |e| / |d| of what it carries (2-norms over a unit's matrices
// and all ranks). What it loses is in the next difference, so the weights in use are behind the
// masters by at most q / (1 - q) updates of an optimizer step (comm.md 2.1: the error obeys e' =
// (1 - C)(e + u)): 0.13 in int4, 0.7 in ternary. Rounding to the compute dtype, which full values
// have as well, does not count: with r the masters' own rounding error, |e|^2 is taken less
// (kRounding r)^2, since differences below the last place of a weight wait until they reach it.
//
// A unit is measured with the first differences that it sends after all got full values, then with
// the first of each kEvery steps: a save or its turn of full values delays a measurement by a step.
// One whose lag is beyond kMost updates sends full values for `period` steps, then differences
// again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace thinwire::zero {

class WeightLag {
 public:
  static constexpr double kMost = 3;      // updates
  static constexpr double kRounding = 3;  // of the rounding error of full values
  static constexpr int64_t kEvery = 16;   // steps from one measurement to the next
  static constexpr size_t kSums = 3;      // per unit: |d|^2, |e|^2, r^2

  // `period` >= 1, in steps.
  WeightLag(size_t units, int64_t period);

  // Whether the differences of this step are measured; their errors are known in the next one.
  bool IsMeasured(size_t unit, int64_t step) const {
    return step >= due_[unit] && !IsFull(unit, step);
  }
  // Of any unit.
  bool IsMeasured(int64_t step) const;
  // The sums of all ranks, by unit, after `step`: of those that were measured then. Returns the
  // units that fall back from then on.
  std::vector<size_t> Judge(int64_t step, std::span<const double> sums);
  // Nothing falls back any more: after `step` everybody got full values.
  void Forget(int64_t step);

  // Whether the unit sends full values in this step: it fell back, or its turn has come.
  bool IsFull(size_t unit, int64_t step) const;
  bool FellBack(size_t unit, int64_t step) const { return step < full_until_[unit]; }

  // The last measurement: 0 before there is one.
  int64_t measured_at() const { return measured_at_; }
  // In updates, by unit; 0 where nothing was sent.
  std::span<const double> updates() const { return updates_; }

 private:
  int64_t period_;
  std::vector<double> updates_;
  std::vector<int64_t> full_until_;
  std::vector<int64_t> due_;  // the next measurement, or later when full values are sent then
  int64_t measured_at_ = 0;
};

}  // namespace thinwire::zero
