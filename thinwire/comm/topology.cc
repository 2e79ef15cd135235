#include "thinwire/comm/topology.h"

#include <algorithm>
#include <map>

#include "thinwire/base/error.h"

namespace thinwire::comm {

Topology::Topology(int hosts, int ranks_per_host, int rank)
    : hosts_(hosts), ranks_per_host_(ranks_per_host) {
  if (hosts < 1 || ranks_per_host < 1) {
    throw UsageError(StrCat("topology of ", hosts, " hosts x ", ranks_per_host,
                            " ranks: both must be at least 1"));
  }
  if (int64_t{hosts} * ranks_per_host > INT32_MAX) {
    throw UsageError(
        StrCat("topology of ", hosts, " hosts x ", ranks_per_host, " ranks: too many ranks"));
  }
  if (rank < 0 || rank >= hosts * ranks_per_host) {
    throw UsageError(StrCat("rank ", rank, " is not in a topology of ", hosts, " hosts x ",
                            ranks_per_host, " ranks"));
  }
  host_ = rank / ranks_per_host;
  local_ = rank % ranks_per_host;
  for (int r = 0; r < world(); ++r) rank_of_.push_back(r);
  origin_ = "given";
}

Topology Topology::Resolve(int rank, int world, int hosts, int ranks_per_host,
                           std::span<const std::string> machine_of_rank) {
  if (world < 1) throw UsageError(StrCat("world of ", world, " ranks: at least 1 is needed"));
  if (hosts < 0 || ranks_per_host < 0) {
    throw UsageError(StrCat("hosts = ", hosts, ", ranks_per_host = ", ranks_per_host,
                            ": neither may be negative"));
  }
  if (hosts > 0 || ranks_per_host > 0) {
    if (hosts == 0) hosts = world % ranks_per_host == 0 ? world / ranks_per_host : 0;
    if (ranks_per_host == 0) ranks_per_host = world % hosts == 0 ? world / hosts : 0;
    if (int64_t{hosts} * ranks_per_host != world) {
      throw UsageError(StrCat("hosts x ranks_per_host does not give the ", world,
                              " ranks that were started: set parallel.hosts and "
                              "parallel.ranks_per_host so that their product is ",
                              world, ", or start another number of ranks"));
    }
    Topology topology(hosts, ranks_per_host, rank);
    topology.origin_ = "from the config";
    return topology;
  }
  if (static_cast<int>(machine_of_rank.size()) != world) {
    Topology topology(1, world, rank);
    topology.origin_ = "one host: nothing else is known";
    return topology;
  }
  // Hosts in the order in which their first rank appears.
  std::map<std::string, std::vector<int>> ranks_on;
  std::vector<std::string> order;
  for (int r = 0; r < world; ++r) {
    std::vector<int>& ranks = ranks_on[machine_of_rank[static_cast<size_t>(r)]];
    if (ranks.empty()) order.push_back(machine_of_rank[static_cast<size_t>(r)]);
    ranks.push_back(r);
  }
  const size_t per_host = ranks_on[order.front()].size();
  const bool equal = std::all_of(order.begin(), order.end(),
                                 [&](const auto& m) { return ranks_on[m].size() == per_host; });
  if (!equal) {
    Topology topology(world, 1, rank);
    topology.origin_ =
        "detected machines with unequal numbers of ranks: every rank is its own host";
    return topology;
  }
  Topology topology(static_cast<int>(order.size()), static_cast<int>(per_host), 0);
  topology.rank_of_.clear();
  for (const std::string& machine : order) {
    for (const int r : ranks_on[machine]) topology.rank_of_.push_back(r);
  }
  const auto at = std::find(topology.rank_of_.begin(), topology.rank_of_.end(), rank);
  if (at == topology.rank_of_.end()) throw UsageError(StrCat("rank ", rank, " of ", world));
  const int index = static_cast<int>(at - topology.rank_of_.begin());
  topology.host_ = index / topology.ranks_per_host_;
  topology.local_ = index % topology.ranks_per_host_;
  topology.origin_ = "detected from the machines the ranks run on";
  return topology;
}

}  // namespace thinwire::comm
