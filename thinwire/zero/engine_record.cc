// Passes without a program: the ranks agree on every event, gathers start when they are asked for,
// and a program is made of the whole for the next time. The first pass of a kind is one; so is the
// rest of a pass that leaves its program.
#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/zero/engine_impl.h"

namespace thinwire::zero {
namespace {

using Kind = UnitOperation::Kind;

std::string_view NameOf(EventKind kind) {
  switch (kind) {
    case EventKind::kAcquire:
      return "gather";
    case EventKind::kRelease:
      return "release";
    case EventKind::kReduce:
      return "gradient reduction";
  }
  return "";
}

uint64_t HashOf(const Event& event) {
  return Mix64(static_cast<uint64_t>(event.unit) << 2 | static_cast<uint64_t>(event.kind));
}

// Leaves room for the flags of a record.
uint64_t HashOf(const std::vector<Event>& events) {
  uint64_t hash = 0;
  for (const Event& event : events) hash = Mix64(hash ^ HashOf(event));
  return hash >> 8;
}

}  // namespace

// All ranks want this event next. `gathers`: it needs a gather, which ranks that serve join.
void Engine::Impl::RecordEvent(const Event& event, bool gathers) {
  comm::Record record;
  record.SetIntent(Mix64(HashOf(event) ^ (gathers ? 1u : 0u)), "%s of %s, %lld elements",
                   std::string(NameOf(event.kind)).c_str(), NameOfUnit(event.unit).c_str(),
                   static_cast<long long>(plan_.units[static_cast<size_t>(event.unit)].numel()));
  record.values = {static_cast<double>(event.unit), static_cast<double>(event.kind),
                   gathers ? 1.0 : 0.0};
  if (kind_ == PassKind::kEvaluate) MarkFollowable(record, Followed::kEvent);
  agreement_.Exchange(record);
}

void Engine::Impl::RecordEnd() {
  comm::Record record;
  record.SetIntent(Mix64(~uint64_t{0}), "the end of the pass");
  if (kind_ == PassKind::kEvaluate) MarkFollowable(record, Followed::kEnd);
  agreement_.Exchange(record);
}

// Adds an operation and its jobs to the lanes.
UnitOperation& Engine::Impl::EnqueueRecorded(const UnitOperation& recorded) {
  OperationList& list = recorded_list_;
  const size_t slow = list.slow_jobs.size(), fast = list.fast_jobs.size();
  UnitOperation& operation = list.Add(board_, recorded, list.operations.size() + 1);
  monitor_.Update([&] {
    Rearm(plan_, operation, step_ + 1, epoch_);
    for (size_t i = slow; i < list.slow_jobs.size(); ++i) {
      slow_lane_->PushLocked(&list.slow_jobs[i]);
    }
    for (size_t i = fast; i < list.fast_jobs.size(); ++i) {
      fast_lane_->PushLocked(&list.fast_jobs[i]);
    }
  });
  return operation;
}

void Engine::Impl::ClearRecordedOperations() {
  monitor_.Wait([&] { return slow_lane_->IdleLocked() && fast_lane_->IdleLocked(); });
  if (!recorded_list_.operations.empty()) recorded_list_ = OperationList();
}

std::byte* Engine::Impl::AcquireRecording(int unit) {
  const size_t u = static_cast<size_t>(unit);
  const bool gathers = !plan_.resident() && holds_[u] == 0;
  RecordEvent({EventKind::kAcquire, unit}, gathers);
  if (plan_.resident()) return AwaitResident(unit);
  if (!gathers) return data_[u];
  const auto held = std::ranges::count_if(holds_, [](int holds) { return holds > 0; });
  const auto free = std::ranges::find(buffer_held_, -1);
  if (held >= plan_.unit_buffers || free == buffer_held_.end()) {
    throw UsageError(StrCat("the model holds ", held,
                            " units at once and wants one more: raise parallel.prefetch"));
  }
  *free = unit;
  const int buffer = static_cast<int>(free - buffer_held_.begin());
  AwaitOperation(EnqueueRecorded({.kind = Kind::kGather, .unit = unit, .buffer = buffer}));
  return memory_.unit_buffers[static_cast<size_t>(buffer)].data();
}

void Engine::Impl::ReduceRecording(int unit) {
  RecordEvent({EventKind::kReduce, unit}, false);
  if (reduced_[static_cast<size_t>(unit)] == Reduced::kGradients) {
    throw UsageError(StrCat("the gradients of ", NameOfUnit(unit),
                            " are reduced twice in one pass: sum them first"));
  }
  const auto reduces =
      std::ranges::count(recorded_list_.operations, Kind::kReduce, &UnitOperation::kind);
  // Zeros that were reduced for it, when the pass left its program, are written over or added to.
  if (last_ && reduced_[static_cast<size_t>(unit)] == Reduced::kZeros) {
    ForgetResidual(static_cast<size_t>(unit));
  }
  SubmitGradients(EnqueueRecorded({.kind = Kind::kReduce,
                                   .unit = unit,
                                   .staging = static_cast<int>(reduces) % kStagingBuffers,
                                   .accumulate = Accumulates(unit),
                                   .last = last_}));
}

// What the caller holds stays where it is; gathers that are still to come get other memory.
void Engine::Impl::DetachHeldUnits() {
  for (size_t b = 0; b < buffer_held_.size(); ++b) {
    if (buffer_held_[b] < 0) continue;
    AlignedBuffer& detached = detached_[static_cast<size_t>(buffer_held_[b])];
    detached = AlignedBuffer(plan_.unit_bytes);
    monitor_.Update([&] { std::swap(detached, memory_.unit_buffers[b]); });
    buffer_held_[b] = -1;
  }
}

void Engine::Impl::ForgetHolds() {
  std::ranges::fill(holds_, 0);
  std::ranges::fill(buffer_held_, -1);
  for (AlignedBuffer& detached : detached_) detached = AlignedBuffer();
}

// The caller wants something that the rest of the program does not have. What is under way is
// served to its end, since peers may have begun it; when all ranks want the same, the pass goes on
// without a program.
void Engine::Impl::Deviate(const Event& wanted) {
  const bool skipped = skipped_;
  const double done = static_cast<double>(cursor_);
  DetachHeldUnits();
  ServeRest();
  comm::Record record;
  record.SetIntent(Mix64(HashOf(wanted) ^ Mix64(static_cast<uint64_t>(step_))),
                   "a %s of %s in step %lld, out of the recorded order",
                   std::string(NameOf(wanted.kind)).c_str(), NameOfUnit(wanted.unit).c_str(),
                   static_cast<long long>(step_ + 1));
  record.flags = HashOf(events_) | (skipped ? kSkippedEvents : 0);
  record.values[2] = done;
  if (kind_ == PassKind::kEvaluate) MarkFollowable(record, Followed::kDeviation);
  DecideToKeep(agreement_.Exchange(record));
  ClearRecordedOperations();
  current_ = nullptr;
}

// A program is made only of what all ranks did, and where some serve, of what they know.
void Engine::Impl::DecideToKeep(std::span<const comm::Record> records) {
  const comm::Record* leader = nullptr;
  bool followed = false;
  for (const comm::Record& record : records) {
    if (record.follows()) {
      followed = true;
    } else if (leader == nullptr) {
      leader = &record;
    } else if (record.flags != leader->flags) {
      keep_ = false;
    }
  }
  if (followed && leader != nullptr && (leader->flags & kSkippedEvents) != 0) keep_ = false;
}

void Engine::Impl::KeepRecorded() {
  monitor_.Wait([&] { return slow_lane_->IdleLocked(); });
  PassProgram& kept = programs().Keep(board_, CompileProgram(events_, plan_.unit_buffers));
  programs().Used(kept);
  if (kind_ != PassKind::kTrain || plan_.parameters == 0) return;
  std::vector<int> gathered;
  for (const GatherStep& gather : kept.program.gathers) gathered.push_back(gather.unit);
  plan_.predicted_bytes_per_param = static_cast<double>(SlowBytesPerStep(plan_, gathered)) *
                                    plan_.topology.ranks_per_host() /
                                    static_cast<double>(plan_.parameters);
}

}  // namespace thinwire::zero
