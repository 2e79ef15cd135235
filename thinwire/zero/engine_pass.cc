// Passes: the first of a kind is recorded, with the ranks agreeing on every event; later ones
// follow the compiled program, and the caller's calls only move a cursor through it.
#include <algorithm>
#include <cstring>

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

}  // namespace

void Engine::Impl::Compile(PassProgram& pass) {
  pass.program = CompileProgram(std::move(pass.recorded), plan_.unit_buffers);
  pass.recorded.clear();
  pass.list = OperationList();
  pass.gathers.assign(pass.program.gathers.size(), nullptr);
  pass.reduces.assign(pass.program.reduces.size(), nullptr);
  uint64_t seed = pass.program.fingerprint;
  for (const Operation& entry : pass.program.order) {
    const size_t index = static_cast<size_t>(entry.index);
    seed = Mix64(seed);
    if (entry.gather) {
      const GatherStep& gather = pass.program.gathers[index];
      pass.gathers[index] = &pass.list.Add(board_,
                                           {.kind = Kind::kGather,
                                            .unit = gather.unit,
                                            .buffer = gather.buffer,
                                            .after_event = gather.after_event},
                                           seed);
    } else {
      pass.reduces[index] = &pass.list.Add(board_,
                                           {.kind = Kind::kReduce,
                                            .unit = pass.program.reduces[index],
                                            .staging = entry.index % kStagingBuffers},
                                           seed);
    }
  }
  pass.list.Link();
  pass.compiled = true;
  if (kind_ == PassKind::kTrain && plan_.parameters > 0) {
    std::vector<int> gathered;
    for (const GatherStep& gather : pass.program.gathers) gathered.push_back(gather.unit);
    plan_.predicted_bytes_per_param = static_cast<double>(SlowBytesPerStep(plan_, gathered)) *
                                      plan_.topology.ranks_per_host() /
                                      static_cast<double>(plan_.parameters);
  }
}

void Engine::Impl::Enqueue(OperationList& list) {
  for (HopJob& job : list.slow_jobs) {
    if (job.operation().kind == Kind::kReduce && !job.operation().last) continue;
    slow_lane_->PushLocked(&job);
  }
  for (HopJob& job : list.fast_jobs) fast_lane_->PushLocked(&job);
}

void Engine::Impl::BeginPass(PassKind kind, bool last) {
  Guard([&] {
    THINWIRE_CHECK(!in_pass_, "BeginPass inside a pass");
    if (kind == PassKind::kTrain) CheckMicroBatch(last);
    kind_ = kind;
    last_ = last;
    if (!pass().recorded.empty()) Compile(pass());
    const uint64_t program = recording() ? 0 : pass().program.fingerprint;
    comm::Record record;
    record.SetIntent(Mix64(program ^ Mix64(static_cast<uint64_t>(step_) ^ (last ? 1u << 31 : 0u))),
                     "%s pass of step %lld%s",
                     kind == PassKind::kTrain ? "a training" : "an evaluation",
                     static_cast<long long>(step_ + 1), last ? "" : ", more micro-batches to come");
    agreement_.Exchange(record);
    in_pass_ = true;
    cursor_ = 0;
    ++epoch_;
    monitor_.Update([&] {
      board_.events_done = 0;
      if (kind == PassKind::kTrain) board_.micro_batches = micro_batches_done_ + 1;
      if (recording()) return;
      for (UnitOperation& operation : pass().list.operations) {
        if (operation.kind == Kind::kReduce) {
          operation.last = last_;
          operation.accumulate = micro_batches_done_ > 0;
        }
        Rearm(plan_, operation, step_ + 1, epoch_);
      }
      Enqueue(pass().list);
    });
  });
}

void Engine::Impl::AgreeOnEvent(const Event& event) {
  const UnitLayout& unit = plan_.units[static_cast<size_t>(event.unit)];
  comm::Record record;
  record.SetIntent(
      Mix64(static_cast<uint64_t>(event.unit) << 2 | static_cast<uint64_t>(event.kind)),
      "%s of %s, %lld elements", std::string(NameOf(event.kind)).c_str(), unit.spec.name.c_str(),
      static_cast<long long>(unit.numel()));
  agreement_.Exchange(record);
  pass().recorded.push_back(event);
}

void Engine::Impl::AwaitOperation(const UnitOperation& operation) {
  monitor_.Wait([&] { return operation.done(); });
}

// Adds the operation of the event recorded last, and its jobs to the lanes.
UnitOperation& Engine::Impl::EnqueueRecorded(const UnitOperation& recorded) {
  OperationList& list = pass().list;
  const size_t slow = list.slow_jobs.size(), fast = list.fast_jobs.size();
  UnitOperation& operation = list.Add(board_, recorded, pass().recorded.size());
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

std::byte* Engine::Impl::AcquireRecording(int unit) {
  AgreeOnEvent({EventKind::kAcquire, unit});
  const auto free = std::ranges::find(buffer_held_, -1);
  if (free == buffer_held_.end()) {
    throw UsageError(StrCat("the model holds ", buffer_held_.size(),
                            " units at once and wants one more: raise parallel.prefetch"));
  }
  *free = unit;
  const int buffer = static_cast<int>(free - buffer_held_.begin());
  AwaitOperation(EnqueueRecorded({.kind = Kind::kGather, .unit = unit, .buffer = buffer}));
  return memory_.unit_buffers[static_cast<size_t>(buffer)].data();
}

void Engine::Impl::ReduceRecording(int unit) {
  AgreeOnEvent({EventKind::kReduce, unit});
  if (std::ranges::count(pass().recorded, Event{EventKind::kReduce, unit}) > 1) {
    throw UsageError(StrCat("the gradients of ", plan_.units[static_cast<size_t>(unit)].spec.name,
                            " are reduced twice in one pass: sum them first"));
  }
  const auto reduces =
      std::ranges::count(pass().list.operations, Kind::kReduce, &UnitOperation::kind);
  SubmitGradients(EnqueueRecorded({.kind = Kind::kReduce,
                                   .unit = unit,
                                   .staging = static_cast<int>(reduces) % kStagingBuffers,
                                   .accumulate = micro_batches_done_ > 0,
                                   .last = last_}));
}

void Engine::Impl::CheckUnit(int unit) const {
  THINWIRE_CHECK(unit >= 0 && static_cast<size_t>(unit) < plan_.units.size(), "unit ", unit);
}

size_t Engine::Impl::Seek(const Event& event) {
  const std::vector<Event>& events = pass().program.events;
  const auto found =
      std::find(events.begin() + static_cast<std::ptrdiff_t>(cursor_), events.end(), event);
  if (found == events.end()) {
    const std::string next =
        cursor_ < events.size()
            ? StrCat("the ", NameOf(events[cursor_].kind), " of ",
                     plan_.units[static_cast<size_t>(events[cursor_].unit)].spec.name)
            : std::string("the end of the pass");
    throw PeerError(StrCat("rank ", plan_.topology.rank(), " wants a ", NameOf(event.kind), " of ",
                           plan_.units[static_cast<size_t>(event.unit)].spec.name, " in step ",
                           step_ + 1, " where the recorded program has ", next,
                           ": the order of modules must not change between steps"));
  }
  const size_t index = static_cast<size_t>(found - events.begin());
  while (cursor_ < index) Serve(cursor_);
  return index;
}

// An event that this rank skipped: its peers need the messages all the same.
void Engine::Impl::Serve(size_t event) {
  const PassProgram& current = pass();
  if (const int gather = current.program.gather_of_event[event]; gather >= 0) {
    AwaitOperation(*current.gathers[static_cast<size_t>(gather)]);
  } else if (const int reduce = current.program.reduce_of_event[event]; reduce >= 0) {
    UnitOperation& operation = *current.reduces[static_cast<size_t>(reduce)];
    ReserveGradientBuffer();
    const int64_t bytes =
        plan_.units[static_cast<size_t>(operation.unit)].numel() * SizeOf(plan_.options.compute);
    std::memset(memory_.gradient_buffers[static_cast<size_t>(gradient_buffer_)].data(), 0,
                static_cast<size_t>(bytes));
    SubmitGradients(operation);
  }
  EventDone();
}

void Engine::Impl::EventDone() {
  ++cursor_;
  monitor_.Update([&] { board_.events_done = static_cast<int>(cursor_); });
}

std::byte* Engine::Impl::Acquire(int unit) {
  return Guard([&] {
    THINWIRE_CHECK(in_pass_, "Acquire outside a pass");
    CheckUnit(unit);
    if (recording()) return AcquireRecording(unit);
    const size_t event = Seek({EventKind::kAcquire, unit});
    const size_t gather = static_cast<size_t>(pass().program.gather_of_event[event]);
    AwaitOperation(*pass().gathers[gather]);
    EventDone();
    return memory_.unit_buffers[static_cast<size_t>(pass().gathers[gather]->buffer)].data();
  });
}

void Engine::Impl::Release(int unit) {
  Guard([&] {
    THINWIRE_CHECK(in_pass_, "Release outside a pass");
    CheckUnit(unit);
    if (recording()) {
      const auto held = std::ranges::find(buffer_held_, unit);
      THINWIRE_CHECK(held != buffer_held_.end(), "release of unit ", unit);
      *held = -1;
      pass().recorded.push_back({EventKind::kRelease, unit});
      return;
    }
    Seek({EventKind::kRelease, unit});
    EventDone();
  });
}

void Engine::Impl::ReserveGradientBuffer() {
  monitor_.Wait(
      [&] { return !board_.gradient_buffer_busy[static_cast<size_t>(gradient_buffer_)]; });
}

std::byte* Engine::Impl::GradientBuffer(int unit) {
  return Guard([&] {
    THINWIRE_CHECK(in_pass_ && kind_ == PassKind::kTrain, "gradients outside a training pass");
    THINWIRE_CHECK(gradient_unit_ < 0, "units ", gradient_unit_, " and ", unit, " at once");
    CheckUnit(unit);
    if (!plan_.units[static_cast<size_t>(unit)].spec.trainable) {
      throw UsageError(StrCat("gradients of ", plan_.units[static_cast<size_t>(unit)].spec.name,
                              ", which is frozen: make a unit of its own of what is trained"));
    }
    // Skipped units before this one are served first: they use the same buffers.
    if (!recording()) Seek({EventKind::kReduce, unit});
    ReserveGradientBuffer();
    gradient_unit_ = unit;
    return memory_.gradient_buffers[static_cast<size_t>(gradient_buffer_)].data();
  });
}

void Engine::Impl::SubmitGradients(UnitOperation& operation) {
  monitor_.Update([&] {
    board_.gradient_buffer_busy[static_cast<size_t>(gradient_buffer_)] = true;
    operation.buffer = gradient_buffer_;
    operation.input = true;
  });
  gradient_buffer_ = (gradient_buffer_ + 1) % kGradientBuffers;
}

void Engine::Impl::ReduceGradients(int unit) {
  Guard([&] {
    THINWIRE_CHECK(gradient_unit_ == unit, "the gradient buffer is of unit ", gradient_unit_);
    gradient_unit_ = -1;
    if (recording()) return ReduceRecording(unit);
    const size_t event = Seek({EventKind::kReduce, unit});
    SubmitGradients(*pass().reduces[static_cast<size_t>(pass().program.reduce_of_event[event])]);
    EventDone();
  });
}

void Engine::Impl::EndPass() {
  Guard([&] {
    THINWIRE_CHECK(in_pass_, "EndPass outside a pass");
    if (!recording()) {
      while (cursor_ < pass().program.events.size()) Serve(cursor_);
    }
    for (const int unit : buffer_held_) {
      if (unit < 0) continue;
      throw UsageError(StrCat("the pass ends while ",
                              plan_.units[static_cast<size_t>(unit)].spec.name,
                              " is still held: every Acquire needs its Release"));
    }
    monitor_.Wait([&] { return fast_lane_->IdleLocked(); });
    in_pass_ = false;
    if (kind_ == PassKind::kTrain) {
      ++micro_batches_done_;
      last_done_ = last_;
    }
  });
}

}  // namespace thinwire::zero
