// What a run cost, beside what the plan said: gathered while it goes, agreed on at the end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thinwire/zero/engine.h"

namespace thinwire::train {

// Follows the steps of one rank.
class Meter {
 public:
  explicit Meter(const zero::Engine& engine);

  struct Interval {
    double seconds = 0;
    int64_t slow_bytes = 0;  // payload this rank sent to other hosts
  };
  // Ends the step that began with the last call of EndStep() or Restart().
  Interval EndStep();
  // What was done since the last step (an evaluation, a save) belongs to none; the step that
  // follows is not counted either, for transfers of the two mix.
  void Restart();

  // Over the steps that count: not the first of the run, which records the order of units.
  double median_seconds() const;
  double slow_bytes_per_step() const;
  int64_t counted_steps() const { return static_cast<int64_t>(seconds_.size()); }

 private:
  const zero::Engine& engine_;
  double begin_s_;
  int64_t begin_bytes_;
  bool mixed_ = true;  // the step under way does not count
  std::vector<double> seconds_;
  int64_t slow_bytes_ = 0;
};

struct RunResult {
  int64_t step = 0;
  double loss = 0;
  double evaluation_loss = 0;  // NaN without an evaluation
  bool stopped = false;        // on request, before the last step
  double median_step_s = 0;
  double tokens_per_s = 0;
  int64_t counted_steps = 0;
  double slow_bytes_per_param = 0;   // payload per host and step; the mean over hosts
  std::vector<int64_t> peak_memory;  // by rank: the peak minus what was resident before the engine
};

// Collective. `memory_before` is what was resident before the engine was made.
void Gather(zero::Engine& engine, const Meter& meter, int64_t tokens_per_step,
            int64_t memory_before, RunResult& result);

// For people, predicted and measured side by side; for programs, summary.json.
std::string Describe(const zero::Plan& plan, const RunResult& result);
std::string ToJson(const zero::Plan& plan, const RunResult& result);

}  // namespace thinwire::train
