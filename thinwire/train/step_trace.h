// The timeline of some steps of a run, written to a file and summed up for people.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "thinwire/zero/engine.h"

namespace thinwire::train {

// Steps of training, counted from 1, both ends included.
struct StepRange {
  int64_t first = 0;
  int64_t last = 0;
};
// From "5..8" or "5". Empty: four steps of a run that has done `done` of them, without the first
// two, which find no order of units and nothing in a buffer. Throws UsageError.
StepRange TracedSteps(std::string_view text, int64_t done);

class StepTrace {
 public:
  // `say` is called on rank 0. Without a `path` all of this does nothing.
  StepTrace(zero::Engine& engine, std::string path, StepRange steps,
            std::function<void(const std::string&)> say);

  // Collective. Before step `step`, after it, and after the last step of the run. The last two tell
  // whether the timeline was taken.
  void Before(int64_t step);
  bool After(int64_t step);
  bool End();

 private:
  zero::Engine& engine_;
  std::string path_;
  StepRange steps_;
  std::function<void(const std::string&)> say_;
  bool runs_ = false;
};

}  // namespace thinwire::train
