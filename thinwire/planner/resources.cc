#include "thinwire/planner/resources.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace thinwire::planner {

void ShareFairly(double capacity, std::span<double> demands) {
  if (std::accumulate(demands.begin(), demands.end(), 0.0) <= capacity) return;
  // The modest ones first: what they leave is for the others.
  std::vector<size_t> order(demands.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return demands[i]; });
  for (size_t k = 0; k < order.size(); ++k) {
    double& mine = demands[order[k]];
    mine = std::min(mine, capacity / static_cast<double>(order.size() - k));
    capacity -= mine;
  }
}

}  // namespace thinwire::planner
