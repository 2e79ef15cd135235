// The ZeRO engine: optimizer state, gradients and parameters sharded over N hosts x L
// ranks, gathered and reduced over the two hops of comm/. Torch-free: it moves bytes and states,
// the adapter (torch/sharded_model.h) or a test calls it where a model would run.
//
// One step of training, as the caller sees it:
//
//   for each micro-batch:
//     BeginPass(kTrain, last)
//     forward:   Acquire(u) ... Release(u)     for each unit, in the order of use
//     backward:  Acquire(u) ... Release(u), fill GradientBuffer(u), ReduceGradients(u)
//     EndPass()
//   Step({lr, loss, stop})
//
// The order of these calls is recorded in the first pass of a kind; later passes follow it, with
// gathers issued ahead of their use. Ranks agree on it (comm/agreement.h). A rank may skip a unit.
// A pass in which all ranks leave the order alike goes on event by event and is recorded, too; a
// few such programs are kept, and the one that came next before is expected again.
//
// `last` is true in the last of EngineOptions::micro_batches passes, or where that is 0 in the pass
// that the caller wants to be the last; every Acquire has its Release
// in the same pass; a unit is reduced at most once a pass. Anything else is an error. An engine
// destroyed inside a pass, or by an exception, tells the other ranks, which then fail at once.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/context.h"
#include "thinwire/base/dtype.h"
#include "thinwire/optim/loss_scaler.h"
#include "thinwire/transport/heartbeat.h"
#include "thinwire/transport/transport.h"
#include "thinwire/zero/hop_watch.h"
#include "thinwire/zero/plan.h"
#include "thinwire/zero/timeline.h"
#include "thinwire/zero/weight_lag.h"

namespace thinwire::zero {

enum class PassKind : uint8_t { kTrain, kEvaluate };

// The connections of one rank. `control` carries small messages only and must not share a queue
// with `bulk`. All outlive the engine.
struct Links {
  transport::Transport& bulk;
  transport::Transport& control;
  transport::HeartbeatBoard& board;
};

struct StepInput {
  float lr = 0;       // of every group, where `groups` is empty
  double loss = 0;    // this rank's, averaged over its micro-batches
  bool stop = false;  // this rank was asked to stop
  // Settings for this step in place of EngineOptions::groups, as many; the same on every rank.
  std::span<const optim::GroupSettings> groups{};
};

struct StepResult {
  int64_t step = 0;      // of the optimizer, 1 after the first
  double loss = 0;       // mean over ranks, in rank order
  double grad_norm = 0;  // global, of the unscaled gradients, before clipping
  bool applied = true;   // false when the gradients held inf or NaN: nothing was updated
  bool stop = false;     // some rank was asked to stop: the same answer on all ranks
  // Lines for the user, the same on all ranks: a unit that sends full values from now on.
  std::vector<std::string> notes{};
};

// Where the optimizer stands, apart from the owned stretches; saved with them.
struct OptimizerProgress {
  int64_t steps = 0;  // taken; skipped ones do not count
  optim::LossScale loss_scale;
};

// A stretch of one parameter that this rank owns, with its optimizer state. All spans that are not
// empty have one size.
struct OwnedStretch {
  int unit = 0;
  int parameter = 0;   // index in UnitSpec::parameters
  int64_t offset = 0;  // of the first element in the parameter, flattened
  std::span<float> master;
  // As optim::Optimizer::states() has them; the others, and all where the unit is frozen, are
  // empty.
  std::array<std::span<float>, optim::kMostStates> states{};
  // Empty where the unit is frozen. Between the last pass of a step and that step: the mean over
  // ranks and micro-batches, times loss_scale(). Otherwise of no meaning.
  std::span<float> gradient{};
};

// What the slow reduce of this rank owes, where the recipe has feedback: bytes by unit, which have
// a meaning to the same rank in an engine of the same layout only. Zeros: nothing.
struct Debts {
  std::string layout;  // empty: there is no feedback
  std::vector<std::span<std::byte>> by_unit{};

  void Forget() const;
};

class Engine {
 public:
  Engine(Plan plan, Links links, ExecContext context = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Plan& plan() const;

  // Between passes: everything this rank owns, in a fixed order; waits for the pushes that still
  // read it. After the owned values were written (at the start, after a load) every rank calls
  // RefreshWeights(step), with the optimizer steps taken so far, or with all of the progress that
  // was saved.
  std::vector<OwnedStretch> Owned();
  // Owned() waits for the pushes, Debts also for what the last pass still sends.
  Debts Owed();
  // What of it is saved: none while there are gradients that wait for their step. Debts were
  // renewed with those, and a run that resumes has the gradients no more and makes them again; to
  // keep what was owed before would take as much memory again.
  Debts OwedAfterSteps();
  void RefreshWeights(int64_t steps);
  void RefreshWeights(const OptimizerProgress& progress);
  // The same after owned values were edited in between: progress and micro-batches stay.
  void RefreshWeights();
  // All ranks call it before what Owned() has is saved: what a run that resumes computes with, this
  // one does, too, where the recipe sends differences.
  void CatchUp();
  // How far the weights in use are behind the masters, where the recipe sends differences.
  const WeightLag& weight_lag() const;
  // The fp32 values of one parameter, flattened, on every rank, as their owners hold them. All
  // ranks call it, outside of passes.
  std::vector<float> ReadParameter(int unit, int parameter);
  OptimizerProgress progress() const;

  // What the loss is to be multiplied with before backward: 1 but for fp16. The gradients that come
  // out are divided by it. The same on all ranks, since they agree on each step's outcome.
  double loss_scale() const;

  // --- one pass; see the top of this file. All throw PeerError when a peer is lost or disagrees.
  void BeginPass(PassKind kind, bool last_micro_batch);
  // The unit's parameters in compute dtype, at the offsets that plan().units[unit] gives; valid
  // until Release(unit). Blocks until they are here.
  std::byte* Acquire(int unit);
  void Release(int unit);
  // Room for the unit's gradients in compute dtype, same offsets, all of it to be written. Blocks
  // until there is some. At most one is held at a time.
  std::byte* GradientBuffer(int unit);
  // Sends what GradientBuffer(unit) holds on its way; the buffer is the engine's again. `missing`:
  // which of the unit's parameters got no gradient, so that zeros stand for it. A parameter that
  // got one on no rank in a whole step (nor the others of units that nobody reduced) is left as it
  // is by the step, as torch leaves one whose grad is None: no decay, and its moments stay.
  void ReduceGradients(int unit, std::span<const int> missing = {});
  // Units that had gradients in the recorded pass but not in this one reduce zeros, which are no
  // gradients to the step.
  void EndPass();
  // In place of EndPass, by all ranks, when the caller's forward or backward raised an error: all
  // are between passes again, and nothing of this one counts. Returns how many micro-batches of the
  // step still do: none when the pass had gradients that were added to those before it.
  int AbandonPass();
  // Takes part in the evaluation passes of the others until every rank has called this. For
  // generation, where ranks stop at different lengths: one that is done serves the others.
  void ServeUntilAllDone();

  StepResult Step(const StepInput& input);

  // The mean of `value` over ranks, summed in rank order; the same bits on every rank. Also a
  // barrier. Outside of passes.
  double MeanOverRanks(double value);

  // At the start of what all ranks do together outside of passes: a PeerError, on all of them,
  // where one does something else instead (both are named), has ended, or does not come for
  // comm::Watchdog::kPatience deadlines.
  void Meet(std::string_view call);

  // Another engine takes this one's place on all ranks, over the same links: this one is destroyed
  // without a farewell to the others. Between steps.
  void HandOver();

  // Bytes and messages that this rank sent on each hop since the engine was made.
  Traffic traffic() const;
  // The exchanges that completed since the last call, if that one said `watch`. For profilers.
  std::vector<HopSpan> TakeHopSpans(bool watch);
  // From here on what this rank does and waits for is kept, in 20 MiB that are taken now and given
  // back by TakeTimeline(). That one is a barrier and gives rank 0 what all ranks kept, the others
  // nothing. All ranks call both, outside of passes.
  void StartTimeline();
  Timeline TakeTimeline();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace thinwire::zero
