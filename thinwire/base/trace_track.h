// What a thread does from one moment to the next, kept while somebody looks: a track is a sequence
// of states, each of which lasts until the next one is entered. So they never overlap, and their
// times add up to the whole.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

namespace thinwire {

// Of steady_clock, which one machine shares between its processes.
int64_t TraceTime(std::chrono::steady_clock::time_point time);
inline int64_t TraceNow() { return TraceTime(std::chrono::steady_clock::now()); }

// What the numbers mean is the affair of who enters them. Without padding, so that it can be sent
// as it lies.
struct TraceState {
  uint32_t doing = 0;
  uint32_t kind = 0;
  int32_t subject = -1;
  int32_t part = 0;
  int64_t bytes = 0;
  int64_t at_ns = 0;  // when it was entered
};

class TraceTrack {
 public:
  struct Taken {
    std::vector<TraceState> states;
    int64_t end_ns = 0;  // of the last of them
    int64_t lost = 0;    // that there was no room for, all of them later
  };

  // From now on what is entered is kept, `first` before all, and `most` states in all, whose memory
  // is taken here.
  void Start(size_t most, TraceState first);
  // Nothing is kept from now on; gives the states and their memory away.
  Taken Take();

  bool on() const { return on_.load(std::memory_order_relaxed); }

  // By one thread at a time. Does nothing, at the price of a look at a flag, while nobody looks.
  void Enter(const TraceState& state) {
    if (on()) Keep(state, TraceNow());
  }
  // The same at a moment that has passed, not before that of the last state.
  void EnterAt(const TraceState& state, int64_t at_ns) {
    if (on()) Keep(state, at_ns);
  }

 private:
  void Keep(TraceState state, int64_t at_ns);

  std::atomic<bool> on_{false};
  std::mutex mutex_;  // against Start and Take
  Taken taken_;
  size_t most_ = 0;
};

}  // namespace thinwire
