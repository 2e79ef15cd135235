// The plan: recipe, units, codecs, buffers and their sizes, fixed before the first step and printed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "thinwire/comm/topology.h"
#include "thinwire/zero/layout.h"
#include "thinwire/zero/options.h"
#include "thinwire/zero/recipe.h"
#include "thinwire/zero/unit.h"

namespace thinwire::zero {

// The four hops, in the order of design and tables.
enum class Hop : uint8_t { kSlowGather, kFastGather, kFastReduce, kSlowReduce };
constexpr int kHops = 4;
std::string_view NameOf(Hop hop);

// What one rank sent, per hop; bytes are those given to the transport (headers included).
struct Traffic {
  std::array<int64_t, kHops> bytes{};
  std::array<int64_t, kHops> messages{};
  int64_t control_bytes = 0;

  int64_t slow_bytes() const {
    return bytes[static_cast<size_t>(Hop::kSlowGather)] + bytes[static_cast<size_t>(Hop::kSlowReduce)];
  }
};

// One kind of memory on this rank.
struct MemoryItem {
  std::string kind;
  int64_t bytes = 0;
};

struct Plan {
  comm::Topology topology;
  EngineOptions options;
  Recipe recipe;  // after hops that vanish here were taken out
  std::vector<UnitLayout> units;
  int64_t parameters = 0;
  int unit_buffers = 0;  // K, full flats in compute dtype
  std::vector<MemoryItem> memory;
  double formula_bytes_per_param = 0;  // slow link, per host and optimizer step, for this recipe
  double predicted_bytes_per_param = 0;  // the same, counted from this model's units and reuse

  int64_t memory_bytes() const;
};

// Throws UsageError for sizes, recipes or topologies that make no sense, naming the setting.
Plan MakePlan(const std::vector<UnitSpec>& units, const comm::Topology& topology,
              const EngineOptions& options);

// The plan as the text that is printed before step 1, one idea per line.
std::string Describe(const Plan& plan);

}  // namespace thinwire::zero
