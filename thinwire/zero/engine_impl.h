// The inside of the engine; for engine*.cc only.
#pragma once

#include <array>
#include <deque>
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
#include "thinwire/zero/pass_programs.h"
#include "thinwire/zero/weight_lag.h"

namespace thinwire::zero {

// What a record of an evaluation pass says to ranks that serve it; in values[3].
enum class Followed : uint8_t { kPass = 1, kEvent, kDeviation, kEnd, kAbandon };
inline void MarkFollowable(comm::Record& record, Followed what) {
  record.flags |= comm::Record::kMayBeFollowed;
  record.values[3] = static_cast<double>(what);
}
// In the flags of a deviation: the caller had skipped some of the events before.
constexpr uint64_t kSkippedEvents = uint64_t{1} << 61;

// What a unit's gradients came to in a pass.
enum class Reduced : uint8_t { kNo, kZeros, kGradients };

// The ways in which a unit's new weights are sent; the second where the recipe sends differences.
struct UnitPush {
  OperationList as_recipe, full_values;
  OperationList* current = nullptr;  // of the step or refresh

  UnitOperation& operation() { return current->operations.front(); }
};

class Engine::Impl {
 public:
  Impl(Plan plan, Links links, ExecContext context);
  ~Impl();

  const Plan& plan() const { return plan_; }
  std::vector<OwnedStretch> Owned();
  Debts Owed();
  Debts OwedAfterSteps();
  void RefreshWeights(const OptimizerProgress& progress);
  void SendFullValues(std::string_view why);
  void CatchUp();
  const WeightLag& weight_lag() const { return lag_; }
  OptimizerProgress progress() const { return {step_, scaler_.state()}; }
  double loss_scale() const { return scaler_.scale(); }
  optim::LossScale initial_loss_scale() const { return scaler_.Initial(); }
  void BeginPass(PassKind kind, bool last);
  std::byte* Acquire(int unit);
  void Release(int unit);
  std::byte* GradientBuffer(int unit);
  void ReduceGradients(int unit, std::span<const int> missing);
  void EndPass();
  int AbandonPass();
  void ServeUntilAllDone();
  std::vector<float> ReadParameter(int unit, int parameter);
  StepResult Step(const StepInput& input);
  double MeanOverRanks(double value);
  void Meet(std::string_view call);
  void HandOver();
  Traffic traffic() const;
  std::vector<HopSpan> TakeHopSpans(bool watch);
  void StartTimeline();
  Timeline TakeTimeline();
  // What the caller's thread does from now on.
  void Now(Doing doing, int subject = -1, int part = 0) {
    board_.track(TrackOf::kCaller)
        .Enter({.doing = Number(doing), .subject = subject, .part = part});
  }

  // Runs body(); an error of it becomes the engine's failure, and the first failure is thrown.
  template <typename Body>
  auto Guard(Body&& body);

 private:
  // --- failure: engine.cc
  void Fail(std::exception_ptr error);
  void FailWith(const std::string& message);
  void AgreeOnPlan();
  void AgreeOnLossScale();

  // --- passes: engine_pass.cc
  bool recording() const { return current_ == nullptr; }
  PassPrograms& programs() { return programs_[static_cast<size_t>(kind_)]; }
  const std::string& NameOfUnit(int unit) const;
  void CheckUnit(int unit) const;
  void SetPassIntent(comm::Record& record) const;
  void StartPass();
  void FinishPass();
  void Enqueue(OperationList& list);
  bool Accumulates(int unit) const {
    return plan_.accumulates_slices() && reduced_in_step_[static_cast<size_t>(unit)];
  }
  bool Find(const Event& event, size_t& index) const;
  bool Seek(const Event& event);
  void Serve(size_t event);
  void ServeRest();
  void EventDone();
  std::byte* AcquireCompiled(int unit);
  void AwaitOperation(const UnitOperation& operation);
  std::byte* AwaitResident(int unit);

  // --- gradients: engine_gradients.cc
  void SubmitGradients(UnitOperation& operation);
  void SubmitAccumulator(UnitOperation& operation, bool zeros);
  void ReduceZeros(UnitOperation& operation);
  void ReduceLate();
  void ForgetResidual(size_t unit);
  void ForgetResiduals();
  void ForgetDebtsOfOtherSums();
  void ReserveGradientBuffer();
  void ForgetMicroBatches();

  void NumberParameters();

  // --- passes without a program: engine_record.cc
  void RecordEvent(const Event& event, bool gathers);
  void RecordEnd();
  void Deviate(const Event& wanted);
  void DecideToKeep(std::span<const comm::Record> records);
  void DetachHeldUnits();
  void ClearRecordedOperations();
  void KeepRecorded();
  UnitOperation& EnqueueRecorded(const UnitOperation& recorded);
  std::byte* AcquireRecording(int unit);
  void ReduceRecording(int unit);
  void ForgetHolds();

  // --- passes of other ranks: engine_serve.cc
  bool Follow();
  void FollowEvent(const comm::Record& leader);
  void FollowDeviation(std::span<const comm::Record> records, const comm::Record& leader);

  // --- the timeline: engine_timeline.cc
  std::vector<double> ClocksAhead(double& error_s);
  void ShareTimelines(std::vector<RankTimeline>& ranks);

  // --- optimizer step: engine_step.cc
  double SumOfSquares() const;
  void PrepareUpdate();
  void CheckMicroBatch(bool last) const;
  void CheckBetweenPasses(std::string_view call) const;
  bool StepIsDue() const;
  void SetGroups(const StepInput& input);
  void ZeroMissingGradients();
  double HashOfUnused() const;
  void LeaveOutUnused(std::span<const comm::Record> records);
  void Update(float grad_scale);

  // --- new weights: engine_push.cc
  void MakePushes();
  void BeginPushes(bool frozen, bool full);
  bool SendsFullValues(size_t unit) const;
  void PushUnit(size_t unit);
  void PushAll();
  std::vector<std::string> JudgeLag();

  Plan plan_;
  Links links_;
  ExecContext context_;
  Memory memory_;
  comm::Monitor monitor_;
  Board board_;
  comm::Agreement agreement_;
  std::array<PassPrograms, 2> programs_;  // by kind of pass
  std::deque<UnitPush> pushes_;           // by unit, where new weights are pushed
  WeightLag lag_;                         // where they are pushed as differences
  std::vector<double> lag_sums_;

  // --- the pass in progress
  PassKind kind_ = PassKind::kTrain;
  bool in_pass_ = false;
  bool handed_over_ = false;
  bool last_ = true;
  PassProgram* current_ = nullptr;       // the program that the pass follows; null: it is recorded
  size_t cursor_ = 0;                    // events of that program that are done
  bool skipped_ = false;                 // some of them by serving, not by the caller
  std::vector<Event> events_;            // what the caller did
  bool keep_ = true;                     // a program is made of them, when the pass has none
  OperationList recorded_list_;          // operations outside of programs
  std::vector<int> holds_;               // by unit: acquired and not released
  std::vector<std::byte*> data_;         // by unit: where it is, while it is held
  std::vector<int> buffer_held_;         // the unit in each buffer that the caller holds, or -1
  std::vector<AlignedBuffer> detached_;  // by unit: its buffer, when held beyond its program
  std::vector<Reduced> reduced_;         // by unit
  int gradient_buffer_ = 0;              // the one being filled, or to be filled next
  int gradient_unit_ = -1;               // the unit whose gradients fill it, or -1

  // --- the step in progress
  int micro_batches_done_ = 0;         // training passes since the last Step
  int owed_micro_batches_ = 0;         // in the sums that the debts are of; 0: as in the first one
  bool last_done_ = false;             // the last of them, where the caller says which that is
  std::vector<bool> reduced_in_step_;  // by unit: in one of them
  std::vector<bool> accumulated_;      // by unit, at stage 1: its accumulator is of this step
  std::vector<double> gradients_;      // by parameter: 1 where this rank had one for it, else 0

  const int exceptions_at_start_;             // in flight when the engine was made
  int64_t step_ = 0;                          // optimizer steps taken
  std::vector<size_t> first_parameter_;       // of each unit, counted over all; then their number
  std::vector<bool> left_out_;                // by parameter: not in stretches_, being unused
  std::vector<optim::Stretch> stretches_;     // all that is updated, by unit
  std::vector<size_t> first_stretch_;         // of each unit; then their number
  std::vector<optim::GroupSettings> groups_;  // of the step in progress
  std::vector<double> room_;                  // for an optimizer of whole parameters
  optim::LossScaler scaler_;
  uint64_t epoch_ = 0;                  // passes and updates begun
  transport::Tag parameter_reads_ = 0;  // messages of ReadParameter so far

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
