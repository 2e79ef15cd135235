// Passes that follow a compiled program: the caller's calls only move a cursor through it.
#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/zero/engine_impl.h"

namespace thinwire::zero {

using Kind = UnitOperation::Kind;

const std::string& Engine::Impl::NameOfUnit(int unit) const {
  return plan_.units[static_cast<size_t>(unit)].spec.name;
}

void Engine::Impl::CheckUnit(int unit) const {
  THINWIRE_CHECK(unit >= 0 && static_cast<size_t>(unit) < plan_.units.size(), "unit ", unit);
}

void Engine::Impl::Enqueue(OperationList& list) {
  for (HopJob& job : list.slow_jobs) {
    if (Uses(plan_, job.operation(), job.hop())) slow_lane_->PushLocked(&job);
  }
  for (HopJob& job : list.fast_jobs) {
    if (Uses(plan_, job.operation(), job.hop())) fast_lane_->PushLocked(&job);
  }
}

void Engine::Impl::SetPassIntent(comm::Record& record) const {
  const PassProgram* expected = programs_[static_cast<size_t>(kind_)].Expected();
  const uint64_t program = expected == nullptr ? 0 : expected->program.fingerprint;
  record.SetIntent(Mix64(program ^ Mix64(static_cast<uint64_t>(step_) ^ (last_ ? 1u << 31 : 0u))),
                   "%s pass of step %lld%s",
                   kind_ == PassKind::kTrain ? "a training" : "an evaluation",
                   static_cast<long long>(step_ + 1), last_ ? "" : ", more micro-batches to come");
}

void Engine::Impl::BeginPass(PassKind kind, bool last) {
  Guard([&] {
    THINWIRE_CHECK(!in_pass_, "BeginPass inside a pass");
    if (kind == PassKind::kTrain) CheckMicroBatch(last);
    kind_ = kind;
    last_ = last || kind == PassKind::kEvaluate;
    comm::Record record;
    SetPassIntent(record);
    if (kind == PassKind::kEvaluate) MarkFollowable(record, Followed::kPass);
    agreement_.Exchange(record);
    StartPass();
  });
}

void Engine::Impl::StartPass() {
  in_pass_ = true;
  current_ = programs().Expected();
  cursor_ = 0;
  skipped_ = false;
  keep_ = true;
  events_.clear();
  reduced_.assign(plan_.units.size(), Reduced::kNo);
  ++epoch_;
  if (recording()) ClearRecordedOperations();
  monitor_.Update([&] {
    board_.events_done = 0;
    if (kind_ == PassKind::kTrain) {
      board_.micro_batches = micro_batches_done_ + 1;
      if (last_) ForgetDebtsOfOtherSums();
    }
    if (recording()) return;
    for (UnitOperation& operation : current_->list.operations) {
      if (operation.kind == Kind::kReduce) {
        operation.last = last_;
        operation.accumulate = Accumulates(operation.unit);
      }
      Rearm(plan_, operation, step_ + 1, epoch_);
    }
    Enqueue(current_->list);
  });
}

void Engine::Impl::AwaitOperation(const UnitOperation& operation) {
  monitor_.Wait([&] { return operation.done(); });
}

// The unit's own buffer, when what was pushed has arrived.
std::byte* Engine::Impl::AwaitResident(int unit) {
  AwaitOperation(pushes_[static_cast<size_t>(unit)].operation());
  return memory_.unit_buffers[static_cast<size_t>(unit)].data();
}

// The next place of `event` in the program. On the way there no unit may be released that the
// caller still holds: its buffer would be given away.
bool Engine::Impl::Find(const Event& event, size_t& index) const {
  const std::vector<Event>& events = current_->program.events;
  const auto from = events.begin() + static_cast<std::ptrdiff_t>(cursor_);
  const auto found = std::find(from, events.end(), event);
  if (found == events.end()) return false;
  for (auto e = from; e != found; ++e) {
    if (e->kind != EventKind::kRelease || holds_[static_cast<size_t>(e->unit)] == 0) continue;
    const auto acquired = std::count(from, e, Event{EventKind::kAcquire, e->unit});
    if (acquired <= std::count(from, e, *e)) return false;
  }
  index = static_cast<size_t>(found - events.begin());
  return true;
}

// Moves to the event, serving what the caller skipped. False: the program has it no more, and the
// pass goes on without one.
bool Engine::Impl::Seek(const Event& event) {
  size_t index = 0;
  if (!Find(event, index)) {
    Deviate(event);
    return false;
  }
  while (cursor_ < index) Serve(cursor_);
  return true;
}

// An event that this rank skipped: its peers need the messages all the same.
void Engine::Impl::Serve(size_t event) {
  skipped_ = true;
  if (const int gather = current_->program.gather_of_event[event]; gather >= 0) {
    AwaitOperation(*current_->gathers[static_cast<size_t>(gather)]);
  } else if (const int reduce = current_->program.reduce_of_event[event]; reduce >= 0) {
    ReduceZeros(*current_->reduces[static_cast<size_t>(reduce)]);
  }
  EventDone();
}

void Engine::Impl::ServeRest() {
  while (cursor_ < current_->program.events.size()) Serve(cursor_);
}

void Engine::Impl::EventDone() {
  ++cursor_;
  monitor_.Update([&] { board_.events_done = static_cast<int>(cursor_); });
}

std::byte* Engine::Impl::Acquire(int unit) {
  return Guard([&] {
    THINWIRE_CHECK(in_pass_, "Acquire outside a pass");
    CheckUnit(unit);
    const size_t u = static_cast<size_t>(unit);
    const bool follows = !recording() && Seek({EventKind::kAcquire, unit});
    data_[u] = follows ? AcquireCompiled(unit) : AcquireRecording(unit);
    ++holds_[u];
    events_.push_back({EventKind::kAcquire, unit});
    return data_[u];
  });
}

std::byte* Engine::Impl::AcquireCompiled(int unit) {
  const int gather = current_->program.gather_of_event[cursor_];
  EventDone();
  if (gather < 0) return AwaitResident(unit);
  const UnitOperation& operation = *current_->gathers[static_cast<size_t>(gather)];
  AwaitOperation(operation);
  const size_t buffer = static_cast<size_t>(operation.buffer);
  buffer_held_[buffer] = unit;
  return memory_.unit_buffers[buffer].data();
}

void Engine::Impl::Release(int unit) {
  Guard([&] {
    THINWIRE_CHECK(in_pass_, "Release outside a pass");
    CheckUnit(unit);
    const size_t u = static_cast<size_t>(unit);
    THINWIRE_CHECK(holds_[u] > 0, "release of unit ", unit);
    const Event event{EventKind::kRelease, unit};
    const bool follows = !recording() && Seek(event);
    if (!follows) RecordEvent(event, false);
    events_.push_back(event);
    if (--holds_[u] == 0) {
      std::ranges::replace(buffer_held_, unit, -1);
      detached_[u] = AlignedBuffer();
    }
    if (follows) EventDone();
  });
}

void Engine::Impl::EndPass() {
  Guard([&] {
    THINWIRE_CHECK(in_pass_, "EndPass outside a pass");
    for (size_t u = 0; u < holds_.size(); ++u) {
      if (holds_[u] == 0) continue;
      throw UsageError(StrCat("the pass ends while ", plan_.units[u].spec.name,
                              " is still held: every Acquire needs its Release"));
    }
    if (recording()) {
      RecordEnd();
    } else {
      ServeRest();
    }
    FinishPass();
  });
}

void Engine::Impl::FinishPass() {
  if (kind_ == PassKind::kTrain && last_) ReduceLate();
  monitor_.Wait([&] { return fast_lane_->IdleLocked(); });
  in_pass_ = false;
  if (kind_ == PassKind::kTrain) {
    ++micro_batches_done_;
    last_done_ = last_;
    for (size_t u = 0; u < reduced_.size(); ++u) {
      if (reduced_[u] != Reduced::kNo) reduced_in_step_[u] = true;
    }
  }
  if (!recording()) {
    programs().Used(*current_);
  } else if (keep_) {
    KeepRecorded();
  }
}

// The caller's forward or backward raised an error. What the pass still owes to peers is served, so
// that all of them come out of it.
int Engine::Impl::AbandonPass() {
  return Guard([&] {
    THINWIRE_CHECK(in_pass_, "AbandonPass outside a pass");
    gradient_unit_ = -1;
    ForgetHolds();
    comm::Record record;
    record.SetIntent(Mix64(static_cast<uint64_t>(step_) ^ Mix64(static_cast<uint64_t>(kind_))),
                     "to abandon its %s pass of step %lld",
                     kind_ == PassKind::kTrain ? "training" : "evaluation",
                     static_cast<long long>(step_ + 1));
    const bool reduced = std::ranges::count(reduced_, Reduced::kGradients) > 0;
    if (!recording()) ServeRest();
    record.flags = reduced ? 1 : 0;
    if (kind_ == PassKind::kEvaluate) MarkFollowable(record, Followed::kAbandon);
    const auto records = agreement_.Exchange(record);
    monitor_.Wait([&] { return fast_lane_->IdleLocked() && slow_lane_->IdleLocked(); });
    in_pass_ = false;
    if (kind_ == PassKind::kTrain) {
      for (size_t u = 0; u < plan_.units.size(); ++u) {
        if (board_.gradient_is_new[u]) ForgetResidual(u);
      }
      board_.gradient_is_new.assign(plan_.units.size(), false);
      const bool mixed = std::ranges::any_of(
          records, [](const comm::Record& each) { return (each.flags & 1) != 0; });
      // Sums that hold some of the pass cannot be taken apart again.
      if (mixed || micro_batches_done_ == 0) ForgetMicroBatches();
    }
    return micro_batches_done_;
  });
}

}  // namespace thinwire::zero
