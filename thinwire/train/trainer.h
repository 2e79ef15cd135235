// A training run on one rank, from the launcher's variables to summary.json.
#pragma once

#include <memory>

#include "thinwire/launch/process_group.h"
#include "thinwire/train/config.h"
#include "thinwire/train/signals.h"

namespace thinwire::train {

class Trainer {
 public:
  // Does nothing yet. With `resume` the run goes on from the newest checkpoint in the output
  // directory, or begins when there is none.
  Trainer(Config config, const launch::LaunchEnvironment& environment, bool resume);
  ~Trainer();

  // To the last step, or until a rank was asked to stop. When it throws, the object must not be
  // destroyed but the process ended (failure.h): peers may be gone.
  void Run();

  // Null before the ranks have found each other.
  transport::HeartbeatBoard* board();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace thinwire::train
