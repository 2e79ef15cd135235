// The program of a pass: what the caller does to which unit, in order, and from that when each
// gather starts, into which buffer, and in which order the exchanges run. A pure function of the
// recorded events and the number of buffers, so that all ranks compute the same one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace thinwire::zero {

enum class EventKind : uint8_t { kAcquire, kRelease, kReduce };

struct Event {
  EventKind kind;
  int unit;
  bool operator==(const Event&) const = default;
};

// One gather. It may start when the events up to and including `after_event` are done.
struct GatherStep {
  int unit = 0;
  int buffer = 0;
  int after_event = -1;  // -1: at the start of the pass
};

// An entry in the order of exchanges.
struct Operation {
  bool gather = true;
  int index = 0;  // of the GatherStep, or of the reduce event among the reduce events
};

struct Program {
  std::vector<Event> events;
  std::vector<int> gather_of_event;  // for an acquire: the gather that brings the unit; else -1
  std::vector<int> reduce_of_event;  // for a reduce: its index among them; else -1
  std::vector<GatherStep> gathers;
  std::vector<int> reduces;  // units
  std::vector<Operation> order;
  uint64_t fingerprint = 0;
};

// A unit still in a buffer when it is acquired again is not gathered again; the buffer to give up
// is the one whose unit is needed latest (Belady 1966). At most as many units are held at a time as
// there are buffers. With `buffers` = 0 units are resident, and nothing is gathered.
Program CompileProgram(std::vector<Event> events, int buffers);

// Acquire/release of every unit in order, then in reverse order for those whose weights backward
// reads, each followed by its reduce: what a plain model does in one pass, for the plan.
std::vector<Event> TypicalPass(const std::vector<bool>& weights_in_backward);

}  // namespace thinwire::zero
