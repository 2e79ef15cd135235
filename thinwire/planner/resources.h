// How several activities share the cores of a rank.
#pragma once

#include <span>

namespace thinwire::planner {

// What each gets of `capacity` when all want `demands` (cores): none gets more than it wants, and
// those that want more than their share get equal ones (max-min fairness, as an operating system's
// scheduler comes to). Overwrites `demands` with the answer.
void ShareFairly(double capacity, std::span<double> demands);

}  // namespace thinwire::planner
