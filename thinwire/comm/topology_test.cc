#include "thinwire/comm/topology.h"

#include <gtest/gtest.h>

#include <set>

#include "thinwire/base/error.h"

namespace thinwire::comm {
namespace {

using Machines = std::vector<std::string>;

// The text of the UsageError that `body` throws; empty when it throws none.
template <typename Body>
std::string UsageErrorOf(Body&& body) {
  try {
    body();
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

TEST(Topology, RanksOfOneHostAreContiguous) {
  for (int rank = 0; rank < 6; ++rank) {
    const Topology topology(3, 2, rank);
    EXPECT_EQ(topology.world(), 6);
    EXPECT_EQ(topology.rank(), rank);
    EXPECT_EQ(topology.host(), rank / 2);
    EXPECT_EQ(topology.local(), rank % 2);
    EXPECT_EQ(topology.RankOf(topology.host(), topology.local()), rank);
  }
}

TEST(Topology, RefusesWhatMakesNoSense) {
  EXPECT_THROW(Topology(0, 2, 0), UsageError);
  EXPECT_THROW(Topology(2, 0, 0), UsageError);
  EXPECT_THROW(Topology(-1, -1, 0), UsageError);
  EXPECT_THROW(Topology(2, 2, 4), UsageError);
  EXPECT_THROW(Topology(2, 2, -1), UsageError);
  EXPECT_THROW(Topology(1 << 16, 1 << 16, 0), UsageError);
  EXPECT_THROW(Topology::Resolve(0, 0, 0, 0, {}), UsageError);
  EXPECT_THROW(Topology::Resolve(0, 4, -1, 0, {}), UsageError);
  EXPECT_THROW(Topology::Resolve(0, 4, 0, -2, {}), UsageError);
  EXPECT_THROW(Topology::Resolve(4, 4, 0, 0, {}), UsageError);
  EXPECT_THROW(Topology::Resolve(2, 2, 0, 0, Machines{"a", "b"}), UsageError);
  EXPECT_THROW(Topology::Resolve(3, 3, 0, 0, Machines{"a", "a", "b"}), UsageError);
}

TEST(Topology, TheConfigDecides) {
  const Machines machines{"a", "b", "c", "d", "e", "f"};
  for (const auto& [hosts, locals] : std::vector<std::pair<int, int>>{{3, 2}, {3, 0}, {0, 2}}) {
    const Topology topology = Topology::Resolve(5, 6, hosts, locals, machines);
    EXPECT_EQ(topology.hosts(), 3);
    EXPECT_EQ(topology.ranks_per_host(), 2);
    EXPECT_EQ(topology.host(), 2);
    EXPECT_EQ(topology.local(), 1);
    EXPECT_EQ(topology.origin(), "from the config");
  }
}

TEST(Topology, AConfigThatDoesNotGiveTheWorldSaysWhatToChange) {
  for (const auto& [hosts, locals] : std::vector<std::pair<int, int>>{
           {2, 2}, {4, 0}, {0, 4}, {7, 0}, {0, 7}, {1 << 20, 1 << 20}}) {
    const std::string error =
        UsageErrorOf([&] { Topology::Resolve(0, 6, hosts, locals, Machines(6, "a")); });
    EXPECT_NE(error.find("6 ranks"), std::string::npos) << error;
    EXPECT_NE(error.find("parallel.hosts"), std::string::npos) << error;
    EXPECT_NE(error.find("parallel.ranks_per_host"), std::string::npos) << error;
  }
}

TEST(Topology, NothingKnownIsOneHost) {
  const Topology topology = Topology::Resolve(3, 4, 0, 0, {});
  EXPECT_EQ(topology.hosts(), 1);
  EXPECT_EQ(topology.ranks_per_host(), 4);
  EXPECT_EQ(topology.local(), 3);
  EXPECT_NE(topology.origin().find("nothing else is known"), std::string::npos);
}

TEST(Topology, MachinesWhoseRanksAreNotContiguous) {
  const Machines machines{"x", "y", "x", "y", "z", "z"};
  std::set<int> ranks;
  for (int rank = 0; rank < 6; ++rank) {
    const Topology topology = Topology::Resolve(rank, 6, 0, 0, machines);
    EXPECT_EQ(topology.hosts(), 3);
    EXPECT_EQ(topology.ranks_per_host(), 2);
    EXPECT_EQ(topology.rank(), rank);
    EXPECT_EQ(topology.RankOf(topology.host(), topology.local()), rank);
    for (int local = 0; local < 2; ++local) {
      const int neighbour = topology.RankOf(topology.host(), local);
      EXPECT_EQ(machines[static_cast<size_t>(neighbour)], machines[static_cast<size_t>(rank)]);
    }
  }
  // Hosts by their first rank, locals ascending: the same table on every rank.
  const Topology topology = Topology::Resolve(5, 6, 0, 0, machines);
  EXPECT_EQ(topology.RankOf(0, 0), 0);
  EXPECT_EQ(topology.RankOf(0, 1), 2);
  EXPECT_EQ(topology.RankOf(1, 0), 1);
  EXPECT_EQ(topology.RankOf(1, 1), 3);
  EXPECT_EQ(topology.RankOf(2, 1), 5);
}

TEST(Topology, UnequalMachinesMakeEveryRankAHost) {
  const Topology topology = Topology::Resolve(2, 3, 0, 0, Machines{"a", "a", "b"});
  EXPECT_EQ(topology.hosts(), 3);
  EXPECT_EQ(topology.ranks_per_host(), 1);
  EXPECT_EQ(topology.host(), 2);
  EXPECT_NE(topology.origin().find("unequal"), std::string::npos);
}

}  // namespace
}  // namespace thinwire::comm
