// The inside of the engine; for engine.cc and engine_step.cc only.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/comm/agreement.h"
#include "thinwire/comm/lane.h"
#include "thinwire/comm/monitor.h"
#include "thinwire/comm/watchdog.h"
#include "thinwire/optim/loss_scaler.h"
#include "thinwire/zero/engine.h"
#include "thinwire/zero/memory.h"
#include "thinwire/zero/operation.h"
#include "thinwire/zero/program.h"

namespace thinwire::zero {

// One kind of pass: recorded the first time, compiled before the second.
struct PassProgram {
  std::vector<Event> recorded;
  bool compiled = false;
  Program program;
  OperationList list;
  std::vector<UnitOperation*> gathers;  // as program.gathers
  std::vector<UnitOperation*> reduces;  // as program.reduces
};

class Engine::Impl {
 public:
  Impl(Plan plan, Links links, ExecContext context);
  ~Impl();

  const Plan& plan() const { return plan_; }
  std::vector<OwnedStretch> Owned();
  void RefreshWeights(const OptimizerProgress& progress);
  OptimizerProgress progress() const { return {step_, scaler_.state()}; }
  double loss_scale() const { return scaler_.scale(); }
  optim::LossScale initial_loss_scale() const { return scaler_.Initial(); }
  void BeginPass(PassKind kind, bool last);
  std::byte* Acquire(int unit);
  void Release(int unit);
  std::byte* GradientBuffer(int unit);
  void ReduceGradients(int unit);
  void EndPass();
  StepResult Step(const StepInput& input);
  double MeanOverRanks(double value);
  Traffic traffic() const;

  // Runs body(); an error of it becomes the engine's failure, and the first failure is thrown.
  template <typename Body>
  auto Guard(Body&& body);

 private:
  // --- failure: engine.cc
  void Fail(std::exception_ptr error);
  void FailWith(const std::string& message);
  void AgreeOnPlan();

  // --- passes: engine_pass.cc
  PassProgram& pass() { return passes_[static_cast<size_t>(kind_)]; }
  bool recording() { return !pass().compiled; }
  void Compile(PassProgram& pass);
  void Enqueue(OperationList& list);
  UnitOperation& EnqueueRecorded(const UnitOperation& recorded);
  void AgreeOnEvent(const Event& event);
  void CheckUnit(int unit) const;
  size_t Seek(const Event& event);
  void Serve(size_t event);
  void EventDone();
  std::byte* AcquireRecording(int unit);
  void ReduceRecording(int unit);
  void SubmitGradients(UnitOperation& operation);
  void ReserveGradientBuffer();
  void AwaitOperation(const UnitOperation& operation);

  // --- optimizer step: engine_step.cc
  double SumOfSquares() const;
  void PrepareUpdate();
  void CheckMicroBatch(bool last) const;
  bool StepIsDue() const;
  void SetGroups(const StepInput& input);
  void ZeroMissingGradients();
  void Update(float grad_scale);
  void BeginPushes(OperationList& pushes);
  void PushUnit(size_t unit);

  Plan plan_;
  Links links_;
  ExecContext context_;
  Memory memory_;
  comm::Monitor monitor_;
  Board board_;
  comm::Agreement agreement_;
  std::array<PassProgram, 2> passes_;
  // One per unit, when something is kept: those of a step, and those that only a refresh needs.
  OperationList pushes_;
  OperationList frozen_pushes_;
  std::vector<UnitOperation*> push_of_unit_;

  PassKind kind_ = PassKind::kTrain;
  bool in_pass_ = false;
  bool last_ = true;
  int micro_batches_done_ = 0;             // training passes since the last Step
  bool last_done_ = false;                 // the last of them, where the caller says which that is
  const int exceptions_at_start_;          // in flight when the engine was made
  size_t cursor_ = 0;                      // events of a compiled pass that are done
  std::vector<int> buffer_held_;           // while recording: the unit in each buffer, or -1
  int gradient_buffer_ = 0;                // the one being filled, or to be filled next
  int gradient_unit_ = -1;                 // the unit whose gradients fill it, or -1
  int64_t step_ = 0;                       // optimizer steps taken
  std::vector<optim::Stretch> stretches_;  // all that is updated, by unit
  std::vector<size_t> first_stretch_;      // of each unit; then their number
  std::vector<optim::GroupSettings> groups_;  // of the step in progress
  std::vector<double> room_;                  // for an optimizer of whole parameters
  optim::LossScaler scaler_;
  uint64_t epoch_ = 0;  // passes and updates begun

  std::unique_ptr<comm::Lane> fast_lane_;
  std::unique_ptr<comm::Lane> slow_lane_;
  std::unique_ptr<comm::Watchdog> watchdog_;
};

template <typename Body>
auto Engine::Impl::Guard(Body&& body) {
  try {
    return body();
  } catch (...) {
    Fail(std::current_exception());
  }
  monitor_.Wait([] { return false; });  // throws the first failure
  throw InternalError("unreachable: a failed engine did not throw");
}

}  // namespace thinwire::zero
