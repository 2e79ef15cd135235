// What a run cost, beside what the plan said: gathered while it goes, agreed on at the end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thinwire/zero/engine.h"

namespace thinwire::train {

// Follows the steps of one rank. Bytes are counted between moments when nothing is on its way, so
// that the transfers of a step, which go on during the next one, are counted whole.
class Meter {
 public:
  // The first step begins now.
  explicit Meter(zero::Engine& engine);

  struct Interval {
    double seconds = 0;
    int64_t slow_bytes = 0;  // payload this rank sent to other hosts meanwhile
  };
  // Ends a step and begins the next.
  Interval EndStep();
  // Between the two anything may be done that belongs to no step: an evaluation, a save.
  void Pause();
  void Continue();

  // Of the steps until the last pause, without the first and those after a pause: the first records
  // the order of units, and none of them finds a unit on its way or in a buffer.
  double median_seconds() const;
  double slow_bytes_per_step() const;
  double slow_messages_per_step() const;
  int64_t counted_steps() const { return static_cast<int64_t>(seconds_.size()); }

 private:
  struct Sent {
    int64_t bytes = 0;
    int64_t messages = 0;
  };
  // What this rank has sent to other hosts.
  Sent Now() const;
  // The same once nothing is on its way.
  Sent Settle();
  double PerStep(int64_t sum) const;

  zero::Engine& engine_;
  double begin_s_ = 0;       // of the step
  int64_t begin_bytes_ = 0;  // of the step
  bool cold_ = true;         // no step has ended since Continue()
  std::vector<double> seconds_;
  Sent span_begin_;  // after the first step since Continue()
  int64_t span_steps_ = 0;
  Sent sent_;  // in all spans before
  int64_t steps_ = 0;
};

struct RunResult {
  int64_t step = 0;
  double loss = 0;
  double evaluation_loss = 0;  // NaN without an evaluation
  bool stopped = false;        // on request, before the last step
  double median_step_s = 0;
  double tokens_per_s = 0;
  int64_t counted_steps = 0;
  double slow_bytes_per_param = 0;    // payload per host and step; the mean over hosts
  double slow_messages_per_step = 0;  // the same
  std::vector<int64_t> peak_memory;   // by rank: the peak minus what was resident before the engine
};

// Collective. `memory_before` is what was resident before the engine was made.
void Gather(zero::Engine& engine, const Meter& meter, int64_t tokens_per_step,
            int64_t memory_before, RunResult& result);

// For people, predicted and measured side by side; for programs, summary.json.
std::string Describe(const zero::Plan& plan, const RunResult& result);
std::string ToJson(const zero::Plan& plan, const RunResult& result);

}  // namespace thinwire::train
