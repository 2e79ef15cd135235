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
  thread_ = std::thread([this] { Run(); });
}

Lane::~Lane() {
  monitor_.Update([&] { stop_ = true; });
  thread_.join();
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

void Lane::Run() {
  if (options_.name[0] != 0) pthread_setname_np(pthread_self(), options_.name);
  try {
    while (Step()) {
    }
  } catch (...) {
    // Usually the monitor's failure, already reported by whoever caused it.
    if (!monitor_.failed()) failed_(std::current_exception());
  }
}

bool Lane::Step() {
  enum class Action { kPrepare, kLaunch, kComplete, kStop };
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
    } else if (completed_ < launched_) {
      action = Action::kComplete;
      job = JobAt(completed_);
    } else {
      action = Action::kStop;
      if (launched_ < prepared_ && !std::exchange(awaited, true)) JobAt(launched_)->Awaited();
      return stop_;
    }
    return true;
  });
  if (action == Action::kStop) return false;
  try {
    switch (action) {
      case Action::kPrepare: {
        const uint32_t sequence = static_cast<uint32_t>(prepared_ & 0x1fffffffu);
        job->Prepare(SlotOf(prepared_), options_.tag_base + sequence);
        ++prepared_;
        break;
      }
      case Action::kLaunch:
        job->Launch(SlotOf(launched_));
        ++launched_;
        break;
      case Action::kComplete:
        job->Complete(SlotOf(completed_));
        monitor_.Update([&] {
          ++completed_;
          job->Finished();
        });
        break;
      case Action::kStop:
        break;
    }
  } catch (...) {
    failed_(Annotated(job->Describe()));
    return false;
  }
  return true;
}

}  // namespace thinwire::comm
