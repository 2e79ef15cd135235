// How fast the links between the ranks are, measured as the engine uses them: on each hop all
// groups exchange at the same time.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "thinwire/base/context.h"
#include "thinwire/base/dtype.h"
#include "thinwire/comm/topology.h"
#include "thinwire/planner/machine.h"
#include "thinwire/transport/transport.h"

namespace thinwire::planner {

struct ProbeLinks {
  transport::Transport& bulk;
  transport::Transport& control;
};

// Sets the links and the times of agreements in `machine`, the same on all ranks; each hop takes
// about a second or, where the links are fast, much less. Messages grow until they take long enough
// to have used up what a shaper lets pass at once. All ranks call it, while nothing else uses the
// links. Throws PeerError.
void MeasureLinks(const ProbeLinks& links, const comm::Topology& topology,
                  const ExecContext& context, Machine& machine);

// Everything of a machine but what computing needs: the links, and the mean over ranks of what
// their processors do with the codecs of `recipes`.
Machine Measure(const ProbeLinks& links, const comm::Topology& topology,
                std::span<const std::string_view> recipes, DType wire, const ExecContext& context);

// "slow link 24.1 MB/s a host and way, 0.3 ms; ..." in one line or two.
std::string Describe(const Machine& machine, const comm::Topology& topology);

}  // namespace thinwire::planner
