#include "thinwire/comm/lane.h"

#include <pthread.h>

#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::comm {
namespace {

// The error in flight, with what the lane was doing in front; its kind is kept.
std::exception_ptr Annotated(const std::string& doing) {
  try {
    throw;
  } catch (const PeerError& error) {
    return std::make_exception_ptr(PeerError(StrCat(doing, ": ", error.what())));
  } catch (const std::exception& error) {
    return std::make_exception_ptr(InternalError(StrCat(doing, ": ", error.what())));
  }
}

}  // namespace

Lane::Lane(Monitor& monitor, const LaneOptions& options,
           std::function<void(std::exception_ptr)> failed)
    : monitor_(monitor), options_(options), failed_(std::move(failed)), ring_(64) {
  for (int i = 0; i < options_.window; ++i)
    slots_.emplace_back(options_.slot_bytes, options_.members);
  out_ = std::thread([this] { Run(Thread::kOut); });
  in_ = std::thread([this] { Run(Thread::kIn); });
}

Lane::~Lane() {
  monitor_.Update([&] { stop_ = true; });
  out_.join();
  in_.join();
}

void Lane::PushLocked(Job* job) {
  if (pushed_ - completed_ == ring_.size()) {
    std::vector<Job*> larger(ring_.size() * 2);
    for (uint64_t i = completed_; i < pushed_; ++i) {
      larger[static_cast<size_t>(i % larger.size())] = JobAt(i);
    }
    ring_ = std::move(larger);
  }
  ring_[static_cast<size_t>(pushed_ % ring_.size())] = job;
  ++pushed_;
}

void Lane::Run(Thread thread) {
  const bool out = thread == Thread::kOut;
  if (options_.name[0] != 0) {
    pthread_setname_np(pthread_self(), StrCat(options_.name, out ? " out" : " in").c_str());
  }
  try {
    while (out ? Send() : TakeIn()) {
    }
  } catch (...) {
    // Usually the monitor's failure, already reported by whoever caused it.
    if (!monitor_.failed()) failed_(std::current_exception());
  }
  if (!out) return;
  {
    const std::lock_guard lock(sent_mutex_);
    sent_all_ = true;
  }
  sent_changed_.notify_one();
}

template <typename Part>
bool Lane::Perform(Job& job, Part&& part) {
  try {
    part();
    return true;
  } catch (...) {
    failed_(Annotated(job.Describe()));
    return false;
  }
}

bool Lane::Send() {
  enum class Action { kPrepare, kLaunch, kStop };
  Action action = Action::kStop;
  Job* job = nullptr;
  bool awaited = false;
  monitor_.Wait([&] {
    const uint64_t window = static_cast<uint64_t>(options_.window);
    if (prepared_ < pushed_ && prepared_ < completed_ + window) {
      action = Action::kPrepare;
      job = JobAt(prepared_);
    } else if (launched_ < prepared_ && JobAt(launched_)->Ready()) {
      action = Action::kLaunch;
      job = JobAt(launched_);
    } else {
      if (launched_ < prepared_ && !std::exchange(awaited, true)) JobAt(launched_)->Awaited();
      return stop_;
    }
    return true;
  });
  if (action == Action::kStop) return false;
  if (action == Action::kPrepare) {
    const uint32_t sequence = static_cast<uint32_t>(prepared_ & 0x1fffffffu);
    if (!Perform(*job, [&] { job->Prepare(SlotOf(prepared_), options_.tag_base + sequence); })) {
      return false;
    }
    ++prepared_;
    return true;
  }
  if (!Perform(*job, [&] { job->Launch(SlotOf(launched_)); })) return false;
  ++launched_;
  {
    const std::lock_guard lock(sent_mutex_);
    sent_ = launched_;
  }
  sent_changed_.notify_one();
  return true;
}

bool Lane::TakeIn() {
  {
    std::unique_lock lock(sent_mutex_);
    sent_changed_.wait(lock, [&] { return taken_in_ < sent_ || sent_all_; });
    if (taken_in_ == sent_) return false;
  }
  Job* job = nullptr;
  monitor_.Wait([&] {  // for the lock, and to end with the others
    job = JobAt(taken_in_);
    return true;
  });
  if (!Perform(*job, [&] { job->Complete(SlotOf(taken_in_)); })) return false;
  ++taken_in_;
  monitor_.Update([&] {
    ++completed_;
    job->Finished();
  });
  return true;
}

}  // namespace thinwire::comm
