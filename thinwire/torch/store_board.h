// The heartbeats of ranks that are processes, in the store through which they met.
#pragma once

#include <chrono>

#include "thinwire/torch/patient_store.h"
#include "thinwire/transport/heartbeat.h"

namespace thinwire::adapter {

// Thread-safe. Every call throws PeerError when the store has not answered within `patience`.
class StoreBoard final : public transport::HeartbeatBoard {
 public:
  // `store` outlives the board. Shows beat -1 for `rank`.
  StoreBoard(PatientStore& store, int rank, std::chrono::milliseconds patience);

  void Publish(int rank, int64_t beat) override;
  int64_t Read(int rank) override;
  void DeclareFailure(const std::string& message) override;
  std::string FirstFailure() override;

 private:
  PatientStore& store_;
  const std::chrono::milliseconds patience_;
};

}  // namespace thinwire::adapter
