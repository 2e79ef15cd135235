// Where the ranks of a launch meet: a TCPStore, who is there, and on which machines.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/launch/process_group.h"
#include "thinwire/torch/patient_store.h"

namespace c10d {
class Store;
}

namespace thinwire::launch {

class Rendezvous {
 public:
  // For a world of two or more: opens the store, which rank 0 hosts unless the launcher's agent
  // does. Both throw as ProcessGroup's constructor.
  Rendezvous(const LaunchEnvironment& environment, std::chrono::milliseconds deadline);
  // Leaves as after a failure when Leave() was not called.
  ~Rendezvous();

  // Waits until all ranks are here. `interface` is what this rank will use towards its peers; all
  // throw when one of several machines would use its loopback.
  void Join(const std::string& interface);

  // A connection for the process groups, whose keys are apart from those of patient_store().
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }
  adapter::PatientStore& patient_store() { return *patient_; }
  const std::vector<std::string>& machine_of_rank() const { return machine_of_rank_; }

  // The end: call once. After a good run it returns when all ranks have called it, so that none
  // closes a connection that another still reads from. After a failed one only the rank that hosts
  // the store waits, for the others to learn what happened. Bounded by seconds in any case.
  void Leave(bool failed) noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  void Connect();
  void Announce(const std::string& interface);
  void AwaitAll();
  void ReadAll();
  int64_t Count(const std::string& key, int64_t increment, std::chrono::milliseconds patience);
  std::chrono::milliseconds Remaining() const;

  const LaunchEnvironment environment_;
  const std::chrono::milliseconds deadline_;
  const Clock::time_point end_;  // of the deadline
  const bool hosts_store_;
  bool left_ = false;
  c10::intrusive_ptr<c10d::Store> store_;
  std::unique_ptr<adapter::PatientStore> patient_;
  std::vector<std::string> machine_of_rank_;
};

}  // namespace thinwire::launch
