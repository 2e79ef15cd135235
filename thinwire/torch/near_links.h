// Messages to ranks of the same machine through memory that they share, to all others over the
// network: shared_transport.h beside a transport that reaches everyone.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/torch/patient_store.h"
#include "thinwire/transport/routed_transport.h"
#include "thinwire/transport/shared_transport.h"

namespace thinwire::adapter {

class NearLinks {
 public:
  struct Wish {
    bool shared_memory = true;  // may differ between ranks
    // As the topology was given, 0 where it was not: ranks of different hosts of that one keep to
    // the network, also where these are on one machine.
    int ranks_per_host = 0;
  };
  // Every rank calls it, with a `store` whose keys "door/..." and "met/..." are unused. A pair
  // shares memory when both want it and have tried that it works. `machine_of_rank` says who may
  // try. `far` outlives this. Blocks for the peers of this machine, for `deadline` at most. Throws
  // PeerError when the store does.
  NearLinks(PatientStore& store, const std::vector<std::string>& machine_of_rank,
            transport::Transport& far, std::chrono::milliseconds deadline, Wish wish);

  // The one to use; all tokens must be gone before this.
  transport::Transport& bulk() { return routed_ ? *routed_ : far_; }
  // Over what this rank reaches those of its machine, for the plan: "shared memory", "network
  // (no shared memory: memfd_create: ...)". Empty where it is the only one there.
  const std::string& description() const { return description_; }
  // Ranks that are reached through shared memory.
  int peers() const { return peers_; }

 private:
  transport::Transport& far_;
  std::string description_;
  int peers_ = 0;
  std::unique_ptr<transport::SharedTransport> near_;
  std::unique_ptr<transport::RoutedTransport> routed_;
};

}  // namespace thinwire::adapter
