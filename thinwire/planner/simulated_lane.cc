#include "thinwire/planner/simulated_lane.h"

#include <algorithm>

namespace thinwire::planner {
namespace {

// What is faster costs no time: it keeps the arithmetic finite.
constexpr double kFastest = 1e18;

}  // namespace

SimulatedLink::SimulatedLink(const Link& link, int ranks, bool full_duplex)
    : rate_(std::min(link.bytes_per_s / ranks / (full_duplex ? 1 : 2), kFastest)),
      cores_(rate_ * link.core_s_per_byte),
      latency_s_(link.latency_s) {
  // One thread sends and receives the messages of a rank.
  if (cores_ > 1) {
    rate_ /= cores_;
    cores_ = 1;
  }
}

void SimulatedLink::Send(double bytes, std::function<void(double)> done) {
  queue_.push_back({{.left = bytes, .rate = rate_, .cores = cores_}, std::move(done)});
}

void SimulatedLink::Settle(double now) {
  while (!queue_.empty() && !queue_.front().activity.active()) {
    queue_.front().done(now + latency_s_);
    queue_.pop_front();
  }
}

double SimulatedLane::Awaited(double now) const {
  if (state_ != State::kAwaiting) return kNever;
  return std::max(now, flights_[completed_].arrives);
}

bool SimulatedLane::Advance(double now, const std::function<bool(const SimulatedJob&)>& ready,
                            const std::function<void(const SimulatedJob&, double)>& finished) {
  if (work_.active()) return false;
  switch (state_) {
    case State::kFree: {
      if (launched_ < flights_.size() && launched_ < completed_ + static_cast<size_t>(window_) &&
          ready(flights_[launched_].job)) {
        Flight& flight = flights_[launched_];
        flight.launched = now;
        work_.left = flight.job.cost->send_s;
        state_ = State::kSending;
      } else if (completed_ < launched_) {
        state_ = State::kAwaiting;
      } else {
        return false;
      }
      return true;
    }
    case State::kSending: {
      Flight& flight = flights_[launched_++];
      if (flight.job.alone || flight.job.cost->bytes <= 0) {
        flight.arrives = now;
      } else {
        link_.Send(flight.job.cost->bytes, [&flight](double at) { flight.arrives = at; });
      }
      state_ = State::kFree;
      return true;
    }
    case State::kAwaiting: {
      const Flight& flight = flights_[completed_];
      if (flight.arrives > now) return false;
      work_.left = flight.job.cost->complete_s;
      state_ = State::kCompleting;
      return true;
    }
    case State::kCompleting: {
      const Flight& flight = flights_[completed_++];
      const double begin = std::max(flight.launched, free_at_);
      free_at_ = now;
      state_ = State::kFree;
      finished(flight.job, flight.job.alone ? 0 : now - begin);
      return true;
    }
  }
  return false;
}

}  // namespace thinwire::planner
