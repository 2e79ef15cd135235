// N hosts x L ranks: who shares a fast link with whom.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace thinwire::comm {

class Topology {
 public:
  // Ranks 0..L-1 on host 0, L..2L-1 on host 1 and so on. Throws UsageError unless
  // hosts, ranks_per_host >= 1, their product is `world` and 0 <= rank < world.
  Topology(int hosts, int ranks_per_host, int rank);

  int hosts() const { return hosts_; }
  int ranks_per_host() const { return ranks_per_host_; }
  int world() const { return hosts_ * ranks_per_host_; }
  int rank() const { return rank_of_[static_cast<size_t>(host_ * ranks_per_host_ + local_)]; }
  int host() const { return host_; }
  int local() const { return local_; }
  int RankOf(int host, int local) const {
    return rank_of_[static_cast<size_t>(host * ranks_per_host_ + local)];
  }
  // How the topology was found, and why, for the plan; one line.
  const std::string& origin() const { return origin_; }

  // The topology of `rank` from what is known, in this order: `hosts` and `ranks_per_host` of the
  // config (0: not given), else the machine that each rank runs on (`machine_of_rank`, any string
  // that is equal for ranks of one machine; empty: not known). Machines with unequal numbers of
  // ranks give (W, 1), and origin() says so.
  static Topology Resolve(int rank, int world, int hosts, int ranks_per_host,
                          std::span<const std::string> machine_of_rank);

 private:
  Topology() = default;
  int hosts_ = 1, ranks_per_host_ = 1, host_ = 0, local_ = 0;
  std::vector<int> rank_of_;  // [host * L + local]
  std::string origin_;
};

}  // namespace thinwire::comm
