// What one exchange costs the processor of a rank, from its shape and the speed of its codecs.
#pragma once

#include "thinwire/planner/machine.h"
#include "thinwire/zero/plan.h"

namespace thinwire::planner {

// Core-seconds of the lane's thread, as comm/exchange.h has the steps, and bytes for the link.
struct ExchangeCost {
  double send_s = 0;      // encode
  double bytes = 0;       // that this rank sends, and receives as many
  double complete_s = 0;  // decode, or sum
};

// `coded_share`: what entropy coding leaves of the messages of hops that have it.
ExchangeCost CostOf(const Machine& machine, const zero::Recipe& recipe, zero::Hop hop,
                    const comm::ExchangeShape& shape, double coded_share);

}  // namespace thinwire::planner
