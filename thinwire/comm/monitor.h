// The lock that the caller's thread, the lanes and the watchdog of one engine share, and the first
// failure among them.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

namespace thinwire::comm {

class Monitor {
 public:
  // Runs change() with the lock held, then wakes all waiters.
  template <typename Change>
  void Update(Change&& change) {
    {
      const std::lock_guard lock(mutex_);
      change();
    }
    changed_.notify_all();
  }

  // Waits until done() (called with the lock held) is true. Throws the failure if there is one.
  template <typename Done>
  void Wait(Done&& done) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failure_ || done(); });
    if (failure_) std::rethrow_exception(failure_);
  }

  // As Wait, for at most `timeout`; tells whether done() was true.
  template <typename Duration, typename Done>
  bool WaitFor(Duration timeout, Done&& done) {
    std::unique_lock lock(mutex_);
    const bool met = changed_.wait_for(lock, timeout, [&] { return failure_ || done(); });
    if (failure_) std::rethrow_exception(failure_);
    return met;
  }

  // The first failure stays and is what every Wait throws from then on. True for that first one.
  bool Fail(std::exception_ptr failure) {
    bool first = false;
    Update([&] {
      first = !failure_;
      if (first) failure_ = failure;
    });
    return first;
  }
  bool failed() {
    const std::lock_guard lock(mutex_);
    return failure_ != nullptr;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr failure_;
};

}  // namespace thinwire::comm
