// Checkpoints of a session: what the ranks own, and a text of the caller's beside it.
#pragma once

#include <string>

#include "thinwire/zero/engine.h"

namespace thinwire::adapter {

// Every rank calls these between steps, with the same arguments; errors are thrown on all ranks.

struct SaveRequest {
  std::string root;
  int64_t step = 0;    // names it
  std::string extra;   // rank 0's JSON text
  bool frozen = true;  // with the parameters that are not trained
};
// Saves into a directory below `root` that is complete or not there (zero/checkpoint.h), and takes
// away what was there before. Returns its path.
std::string SaveModuleCheckpoint(zero::Engine& engine, const SaveRequest& request);

struct LoadedCheckpoint {
  std::string path;
  std::string extra;
  zero::OptimizerProgress progress;  // for ModuleAdapter::RefreshWeights
  std::string note;                  // a line for the user, or none
};
struct LoadRequest {
  std::string root;
  bool masters_only = false;  // the optimizer begins anew
  bool partial = false;       // see zero::LoadTarget
};
// Fills the masters from the newest checkpoint below `root`, and the optimizer's state. Throws
// UsageError where there is none.
LoadedCheckpoint LoadModuleCheckpoint(zero::Engine& engine, const LoadRequest& request);

}  // namespace thinwire::adapter
