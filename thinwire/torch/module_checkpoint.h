// Checkpoints of a session: what the ranks own, and a text of the caller's beside it.
#pragma once

#include <string>

#include "thinwire/zero/engine.h"

namespace thinwire::adapter {

// Every rank calls these between steps, with the same arguments; errors are thrown on all ranks.

// Saves into a directory below `root` that is complete or not there (zero/checkpoint.h), and takes
// away what was there before. `step` names it, `extra` is rank 0's JSON text. Returns its path.
std::string SaveModuleCheckpoint(zero::Engine& engine, const std::string& root, int64_t step,
                                 const std::string& extra);

struct LoadedCheckpoint {
  std::string path;
  std::string extra;
  zero::OptimizerProgress progress;  // for ModuleAdapter::RefreshWeights
};
// Fills the masters from the newest checkpoint below `root`, and the optimizer's state unless only
// masters are wanted: then the optimizer begins anew. Throws UsageError where there is none.
LoadedCheckpoint LoadModuleCheckpoint(zero::Engine& engine, const std::string& root,
                                      bool masters_only);

}  // namespace thinwire::adapter
