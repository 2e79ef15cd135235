// The parts of a simulation that run beside the caller: activities that share cores, links that
// carry one message after the other, and lanes that work as comm::Lane does, but for its two
// threads: here one sends and takes in, so that what becomes ready meanwhile is sent a little
// later.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <vector>

#include "thinwire/planner/exchange_cost.h"
#include "thinwire/planner/machine.h"
#include "thinwire/zero/operation.h"

namespace thinwire::planner {

// Something that takes time. It advances at `rate` units per second when it gets the cores it
// wants, and slower with fewer.
struct Activity {
  double left = 0;  // units
  double rate = 1;
  double cores = 0;

  bool active() const { return left > 0; }
};

// One exchange in the order of a lane.
struct SimulatedJob {
  zero::UnitOperation* operation = nullptr;
  zero::Hop hop = zero::Hop::kSlowGather;
  const ExchangeCost* cost = nullptr;
  bool alone = false;  // a hop of one member: nothing is sent
};

class SimulatedLink {
 public:
  // `ranks`: how many send over it at the same time, all alike.
  SimulatedLink(const Link& link, int ranks, bool full_duplex);

  bool busy() const { return !queue_.empty(); }
  // Calls done(time of arrival) when the message has crossed.
  void Send(double bytes, std::function<void(double)> done);
  Activity* Current() { return queue_.empty() ? nullptr : &queue_.front().activity; }
  // Takes away what has crossed by `now`.
  void Settle(double now);

 private:
  struct Message {
    Activity activity;
    std::function<void(double)> done;
  };
  double rate_;
  double cores_;
  double latency_s_;
  std::deque<Message> queue_;
};

class SimulatedLane {
 public:
  SimulatedLane(int window, SimulatedLink& link) : window_(window), link_(link) {}

  void Push(SimulatedJob job) { flights_.push_back({job}); }
  bool idle() const { return completed_ == flights_.size(); }

  // Does what takes no time; false when there is nothing of it. `ready` is asked about the next
  // job, `finished` is told of each that is complete, with the seconds that the lane spent on it.
  bool Advance(double now, const std::function<bool(const SimulatedJob&)>& ready,
               const std::function<void(const SimulatedJob&, double)>& finished);
  Activity* Current() { return work_.active() ? &work_ : nullptr; }
  // When the message that it waits for is here, if that is known; else infinity.
  double Awaited(double now) const;

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  enum class State { kFree, kSending, kAwaiting, kCompleting };
  struct Flight {
    SimulatedJob job;
    double launched = 0;
    double arrives = kNever;
  };

  const int window_;
  SimulatedLink& link_;
  std::deque<Flight> flights_;  // of the whole run; addresses stay
  size_t launched_ = 0, completed_ = 0;
  State state_ = State::kFree;
  Activity work_{.left = 0, .rate = 1, .cores = 1};
  double free_at_ = 0;  // when the exchange before it ended
};

}  // namespace thinwire::planner
