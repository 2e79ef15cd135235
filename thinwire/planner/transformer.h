// A model of which little more is known than its size: a LLaMA-type transformer.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/zero/unit.h"

namespace thinwire::planner {

struct TransformerShape {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t vocab = 0;

  int64_t parameters() const;
};

// What is 0 in `given` follows from the number of parameters: a hidden size of 128 per layer, 32000
// words (fewer where they would be more than a quarter of a small model), and a feed-forward layer
// that makes up the rest. Throws UsageError when it does not come out.
TransformerShape ShapeOf(double parameters, const TransformerShape& given);

// A unit for the embedding, one for each block, one for the head.
std::vector<zero::UnitSpec> UnitsOf(const TransformerShape& shape);

}  // namespace thinwire::planner
