#include "thinwire/planner/work.h"

namespace thinwire::planner {
namespace {

double Multiplied(const zero::UnitLayout& unit) {
  return unit.spec.weights_in_backward ? static_cast<double>(unit.matrix.size()) : 0;
}

double Multiplied(const std::vector<zero::UnitLayout>& units) {
  double sum = 0;
  for (const zero::UnitLayout& unit : units) sum += Multiplied(unit);
  return sum;
}

}  // namespace

std::vector<UnitWork> SplitWork(const std::vector<zero::UnitLayout>& units, double seconds) {
  constexpr double kAll = kForwardOperations + kBackwardOperations;
  const double sum = Multiplied(units);
  std::vector<UnitWork> work;
  for (const zero::UnitLayout& unit : units) {
    const double share = sum > 0 ? Multiplied(unit) / sum : 1.0 / static_cast<double>(units.size());
    work.push_back({seconds * share * kForwardOperations / kAll,
                    seconds * share * kBackwardOperations / kAll});
  }
  return work;
}

double OperationsOf(const std::vector<zero::UnitLayout>& units, int64_t tokens) {
  return (kForwardOperations + kBackwardOperations) * Multiplied(units) *
         static_cast<double>(tokens);
}

}  // namespace thinwire::planner
