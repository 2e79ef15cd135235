#include "thinwire/zero/program.h"

#include <algorithm>
#include <climits>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"

namespace thinwire::zero {
namespace {

struct Buffer {
  int unit = -1;
  int gather = -1;
  int held = 0;
  int released_at = -1;  // the event that released it last
};

int NextAcquire(const std::vector<Event>& events, size_t from, int unit) {
  for (size_t e = from; e < events.size(); ++e) {
    if (events[e] == Event{EventKind::kAcquire, unit}) return static_cast<int>(e);
  }
  return INT_MAX;
}

// The buffer for the unit acquired at event `now`: an empty one, or the one needed latest.
size_t ChooseBuffer(const std::vector<Buffer>& buffers, const std::vector<Event>& events,
                    size_t now) {
  size_t best = buffers.size();
  int best_next = -1;
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (buffers[b].held > 0) continue;
    if (buffers[b].unit < 0) return b;
    const int next = NextAcquire(events, now, buffers[b].unit);
    if (next > best_next ||
        (next == best_next && buffers[b].released_at < buffers[best].released_at)) {
      best = b;
      best_next = next;
    }
  }
  if (best == buffers.size()) {
    throw UsageError(StrCat("the model holds ", buffers.size(),
                            " units at once and wants one more: raise parallel.prefetch"));
  }
  return best;
}

void AssignBuffers(Program& program, int buffer_count) {
  std::vector<Buffer> buffers(static_cast<size_t>(buffer_count));
  int after = -1;  // gathers start in the order of their use
  for (size_t e = 0; e < program.events.size(); ++e) {
    const Event& event = program.events[e];
    const auto holder =
        std::ranges::find_if(buffers, [&](const Buffer& b) { return b.unit == event.unit; });
    if (event.kind == EventKind::kRelease) {
      THINWIRE_CHECK(holder != buffers.end() && holder->held > 0, "unit ", event.unit);
      --holder->held;
      holder->released_at = static_cast<int>(e);
    } else if (event.kind == EventKind::kAcquire) {
      if (holder != buffers.end()) {
        ++holder->held;
        program.gather_of_event[e] = holder->gather;
        continue;
      }
      const size_t b = ChooseBuffer(buffers, program.events, e);
      after = std::max(after, buffers[b].released_at);
      program.gather_of_event[e] = static_cast<int>(program.gathers.size());
      buffers[b] = {event.unit, program.gather_of_event[e], 1, -1};
      program.gathers.push_back({event.unit, static_cast<int>(b), after});
    }
  }
}

}  // namespace

Program CompileProgram(std::vector<Event> events, int buffers) {
  THINWIRE_CHECK(buffers >= 0);
  Program program;
  program.events = std::move(events);
  program.gather_of_event.assign(program.events.size(), -1);
  program.reduce_of_event.assign(program.events.size(), -1);
  if (buffers > 0) AssignBuffers(program, buffers);

  size_t gather = 0;
  uint64_t hash = Mix64(static_cast<uint64_t>(buffers));
  for (size_t e = 0; e < program.events.size(); ++e) {
    const Event& event = program.events[e];
    hash =
        Mix64(hash ^ (static_cast<uint64_t>(event.unit) << 2 | static_cast<uint64_t>(event.kind)));
    while (gather < program.gathers.size() &&
           program.gathers[gather].after_event < static_cast<int>(e)) {
      program.order.push_back({true, static_cast<int>(gather++)});
    }
    if (event.kind == EventKind::kReduce) {
      program.reduce_of_event[e] = static_cast<int>(program.reduces.size());
      program.order.push_back({false, program.reduce_of_event[e]});
      program.reduces.push_back(event.unit);
    }
  }
  THINWIRE_CHECK(gather == program.gathers.size());
  program.fingerprint = hash;
  return program;
}

std::vector<Event> TypicalPass(const std::vector<bool>& weights_in_backward) {
  std::vector<Event> events;
  const int units = static_cast<int>(weights_in_backward.size());
  for (int u = 0; u < units; ++u) {
    events.push_back({EventKind::kAcquire, u});
    events.push_back({EventKind::kRelease, u});
  }
  for (int u = units - 1; u >= 0; --u) {
    if (weights_in_backward[static_cast<size_t>(u)]) {
      events.push_back({EventKind::kAcquire, u});
      events.push_back({EventKind::kRelease, u});
    }
    events.push_back({EventKind::kReduce, u});
  }
  return events;
}

}  // namespace thinwire::zero
