// Numbers between bounds, as digits.
#pragma once

#include <cstdint>
#include <optional>

#include "thinwire/text/grammar.h"

namespace thinwire::text {

struct Bounds {
  std::optional<int64_t> least = std::nullopt, most = std::nullopt;
  // Whether the bound itself is outside; for integers none is.
  bool above_least = false, below_most = false;
};

// Bounds are less than this (10^15) from zero.
constexpr int64_t kMostBound = 1'000'000'000'000'000;

// JSON's integers within the bounds, of 16 digits at most; -1 where there are none.
Grammar::Node IntegersBetween(Grammar& grammar, const Bounds& bounds);
// The same of numbers with and without a fraction of 16 digits at most, without exponents.
Grammar::Node NumbersBetween(Grammar& grammar, const Bounds& bounds);

}  // namespace thinwire::text
