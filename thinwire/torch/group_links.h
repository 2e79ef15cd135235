// The engine's links over process groups that somebody else made: in Python, by their names.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/zero/engine.h"

namespace c10d {
class Store;
}

namespace thinwire::adapter {

class GroupLinks {
 public:
  // A world of one, which needs no network.
  GroupLinks();
  // `bulk` and `control` are names of two groups of all ranks, whose CPU backend sends and receives
  // and which nobody else uses. `store` is one that all ranks reach, with keys of this engine
  // alone; it is cloned. Blocks until every rank has said which machine it runs on, for `deadline`
  // at most. Throws UsageError for a name that is not there, PeerError for ranks that did not come.
  // With `shared_memory` ranks of one machine send each other `bulk` messages through it; where the
  // topology is given (`ranks_per_host` > 0), those of one of its hosts.
  GroupLinks(const std::string& bulk, const std::string& control,
             const c10::intrusive_ptr<c10d::Store>& store, std::chrono::milliseconds deadline,
             bool shared_memory, int ranks_per_host);
  ~GroupLinks();

  zero::Links links();
  int rank() const;
  int world() const;
  // A string per rank, equal for ranks of one machine.
  const std::vector<std::string>& machine_of_rank() const;
  // Over what ranks of this machine are reached: see NearLinks::description().
  const std::string& near_link() const;
  int near_peers() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace thinwire::adapter
