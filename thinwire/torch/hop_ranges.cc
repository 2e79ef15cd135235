#include "thinwire/torch/hop_ranges.h"

#include <c10/util/ApproximateClock.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <pthread.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"

namespace thinwire::adapter {
namespace {

using zero::HopSpan;

bool ProfilerRuns() {
  using torch::profiler::impl::ActiveProfilerType;
  using torch::profiler::impl::ProfilerStateBase;
  // Next to one of the whole process, which takes no events of others, torch refuses them.
  return torch::profiler::impl::profilerType() == ActiveProfilerType::KINETO &&
         ProfilerStateBase::get(/*global=*/true) == nullptr;
}

struct Range {
  std::string name;
  int64_t begin_us = 0, end_us = 0;
};

// On torch's clock.
Range RangeOf(const HopSpan& span, const zero::Plan& plan) {
  const int64_t now_ns = c10::getTime();
  const auto now = zero::HopClock::now();
  const auto microseconds = [&](zero::HopClock::time_point time) {
    return (now_ns - std::chrono::nanoseconds(now - time).count()) / 1000;
  };
  return {.name = StrCat("thinwire::", zero::NameOf(span.hop), " ",
                         plan.units[static_cast<size_t>(span.unit)].spec.name, " [", span.bytes,
                         " bytes]"),
          .begin_us = microseconds(span.begin),
          .end_us = microseconds(span.end)};
}

}  // namespace

// A thread that does nothing but enter ranges, while the caller waits for it.
class HopRanges::Track {
 public:
  explicit Track(const char* name)
      : thread_([this, name] {
          pthread_setname_np(pthread_self(), name);
          Run();
        }) {}
  ~Track() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void Enter(const std::vector<Range>& ranges) {
    std::unique_lock lock(mutex_);
    info_ = c10::ThreadLocalDebugInfo::current();
    ranges_ = &ranges;
    changed_.notify_all();
    changed_.wait(lock, [&] { return ranges_ == nullptr; });
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stop_ || ranges_ != nullptr; });
      if (stop_) return;
      {
        const c10::DebugInfoGuard as_the_caller(std::exchange(info_, nullptr));
        for (const Range& range : *ranges_) {
          torch::autograd::profiler::reportBackendEventToActiveKinetoProfiler(
              range.begin_us, range.end_us, /*debug_handle=*/-1, at::RecordScope::FUNCTION,
              range.name, "thinwire");
        }
      }
      ranges_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<c10::ThreadLocalDebugInfo> info_;
  const std::vector<Range>* ranges_ = nullptr;
  bool stop_ = false;
  std::thread thread_;
};

HopRanges::HopRanges(zero::Engine& engine) : engine_(engine) {}
HopRanges::~HopRanges() = default;

void HopRanges::Report() {
  const bool runs = ProfilerRuns();
  if (!runs && !watching_) return;
  const std::vector<HopSpan> spans = engine_.TakeHopSpans(runs);
  // Spans of a profiler that has ended are no other's.
  if (!std::exchange(watching_, runs) || !runs) return;
  std::vector<Range> slow, fast;
  for (const HopSpan& span : spans) {
    (zero::IsSlow(span.hop) ? slow : fast).push_back(RangeOf(span, engine_.plan()));
  }
  if (!slow.empty()) {
    if (!slow_) slow_ = std::make_unique<Track>("slow hops");
    slow_->Enter(slow);
  }
  if (!fast.empty()) {
    if (!fast_) fast_ = std::make_unique<Track>("fast hops");
    fast_->Enter(fast);
  }
}

}  // namespace thinwire::adapter
