// Joins this process to the others of a launch and gives the engine its links: Gloo through c10d,
// and shared memory between ranks of one machine (torch/near_links.h),
// from the launcher's variables (torchrun's: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
// MASTER_ADDR, MASTER_PORT, TORCHELASTIC_USE_AGENT_STORE, TORCHELASTIC_RESTART_COUNT; the interface
// from THINWIRE_INTERFACE or GLOO_SOCKET_IFNAME).
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/transport/heartbeat.h"
#include "thinwire/transport/transport.h"

namespace thinwire::launch {

struct LaunchEnvironment {
  int rank = 0;
  int world = 1;
  int local_rank = 0;
  int local_world = 1;  // 0: the launcher did not say
  std::string master_address = "127.0.0.1";
  int master_port = 0;
  std::string interface;           // empty: the one that reaches master_address
  bool agent_hosts_store = false;  // the launcher's agent hosts the store; otherwise rank 0 does
  int attempt = 0;                 // how often the agent restarted this launch

  // From the variables above; without RANK a world of one. Throws UsageError naming the variable.
  static LaunchEnvironment FromVariables();
};

class ProcessGroup {
 public:
  // Blocks until all ranks are there or `deadline` has passed. Throws UsageError (a port that is
  // taken, an interface that is not there) or PeerError (ranks that did not come, by number).
  // Without `shared_memory` this rank reaches those of its machine over the network, too; where the
  // topology is given (`ranks_per_host` > 0), it does so with those of other hosts of that one.
  ProcessGroup(const LaunchEnvironment& environment, std::chrono::milliseconds deadline,
               bool shared_memory, int ranks_per_host = 0);
  ~ProcessGroup();

  transport::Transport& bulk();
  transport::Transport& control();
  transport::HeartbeatBoard& board();
  // A string per rank, equal for ranks of one machine (boot id and network namespace).
  const std::vector<std::string>& machine_of_rank() const;
  // Over what bulk() reaches the ranks of this machine: see NearLinks::description().
  const std::string& near_link() const;
  // How many of them through shared memory.
  int near_peers() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace thinwire::launch
