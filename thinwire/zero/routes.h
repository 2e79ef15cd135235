// The exchanges of one unit: for each hop, the chunks in which its pieces travel.
#pragma once

#include <array>
#include <vector>

#include "thinwire/comm/exchange.h"
#include "thinwire/comm/topology.h"
#include "thinwire/zero/layout.h"
#include "thinwire/zero/recipe.h"

namespace thinwire::zero {

// The four hops, in the order of the tables.
enum class Hop : uint8_t { kSlowGather, kFastGather, kFastReduce, kSlowReduce };
constexpr size_t kHops = 4;
std::string_view NameOf(Hop hop);
constexpr size_t Index(Hop hop) { return static_cast<size_t>(hop); }
constexpr bool IsSlow(Hop hop) { return hop == Hop::kSlowGather || hop == Hop::kSlowReduce; }

struct Routes {
  Recipe recipe;  // of this unit: the plan's, with raw codecs of the unit's type
  std::array<std::vector<comm::ExchangeShape>, kHops> chunks;
  // Where the slow gather sends differences: the chunks in which it sends full values instead.
  std::vector<comm::ExchangeShape> full_values{};

  const std::vector<comm::ExchangeShape>& of(Hop hop, bool full = false) const {
    return full && hop == Hop::kSlowGather && recipe.sends_differences() ? full_values
                                                                         : chunks[Index(hop)];
  }
  // What this rank sends over `hop` for one use of the unit.
  int64_t sent_bytes(Hop hop) const;
  int64_t sent_messages(Hop hop) const;
  // Room for the codes of this rank's slice, when they are passed on: its payloads, chunk by chunk.
  int64_t code_bytes() const { return code_offset(of(Hop::kFastGather).size()); }
  int64_t code_offset(size_t chunk) const;
  // Room for what the slow reduce owes to the other hosts, in the recipe's feedback.
  int64_t residual_bytes() const;
  // The same, by chunk, in memory at `data`.
  std::vector<comm::Residuals> ResidualsAt(std::byte* data) const;
};

// Messages carry at most about `chunk_bytes`; the number of chunks is the same on all ranks.
Routes MakeRoutes(const UnitLayout& unit, const comm::Topology& topology, const Recipe& recipe,
                  int64_t chunk_bytes);

}  // namespace thinwire::zero
