// Evaluation passes of other ranks, which this one only serves: generation, where ranks stop at
// different lengths. It follows what the others agree on and reads it in their records.
#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/zero/engine_impl.h"

namespace thinwire::zero {

void Engine::Impl::ServeUntilAllDone() {
  Guard([&] {
    THINWIRE_CHECK(!in_pass_, "ServeUntilAllDone inside a pass");
    kind_ = PassKind::kEvaluate;
    last_ = true;
    while (Follow()) {
    }
  });
}

// One record of the others; false when there are none.
bool Engine::Impl::Follow() {
  comm::Record record;
  record.SetIntent(0, "to serve evaluation passes until all ranks are done");
  record.flags = comm::Record::kFollows;
  const auto records = agreement_.Exchange(record);
  const auto leader =
      std::ranges::find_if(records, [](const comm::Record& each) { return !each.follows(); });
  // A pass that had a program ends without a record: the next one tells.
  const bool next =
      leader == records.end() || leader->values[3] == static_cast<double>(Followed::kPass);
  if (next && in_pass_) FinishPass();
  if (leader == records.end()) return false;
  switch (static_cast<Followed>(static_cast<int>(leader->values[3]))) {
    case Followed::kPass:
      SetPassIntent(record);
      if (record.fingerprint != leader->fingerprint) {
        throw PeerError(StrCat("rank ", plan_.topology.rank(), " cannot serve ", leader->Intent(),
                               ": it knows another order of its units"));
      }
      StartPass();
      if (!recording()) ServeRest();
      break;
    case Followed::kEvent:
      FollowEvent(*leader);
      break;
    case Followed::kDeviation:
      FollowDeviation(records, *leader);
      break;
    case Followed::kEnd:
      FinishPass();
      break;
    case Followed::kAbandon:
      monitor_.Wait([&] { return fast_lane_->IdleLocked(); });
      in_pass_ = false;
      break;
  }
  return true;
}

void Engine::Impl::FollowEvent(const comm::Record& leader) {
  const Event event{static_cast<EventKind>(static_cast<int>(leader.values[1])),
                    static_cast<int>(leader.values[0])};
  THINWIRE_CHECK(in_pass_ && recording(), leader.Intent());
  CheckUnit(event.unit);
  if (leader.values[2] != 0) {
    // Nobody reads it here, so that any buffer does.
    AwaitOperation(EnqueueRecorded({.kind = UnitOperation::Kind::kGather, .unit = event.unit}));
  }
  events_.push_back(event);
}

// The others have left the program, which this rank has served to its end as they have.
void Engine::Impl::FollowDeviation(std::span<const comm::Record> records,
                                   const comm::Record& leader) {
  THINWIRE_CHECK(in_pass_ && !recording(), leader.Intent());
  const std::vector<Event>& events = current_->program.events;
  const size_t done = static_cast<size_t>(leader.values[2]);
  THINWIRE_CHECK(done <= events.size(), done, " of ", events.size());
  events_.assign(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(done));
  DecideToKeep(records);
  ClearRecordedOperations();
  current_ = nullptr;
}

}  // namespace thinwire::zero
