#include "thinwire/base/thread_team.h"

#include <algorithm>

#include "thinwire/base/error.h"

namespace thinwire {
namespace {

// How long a thread looks before it sleeps. Waking one costs 5 to 50 microseconds, and between the
// loops of a forward pass there are fewer than ten; some 2,000 pauses last 25 to 90 microseconds.
constexpr int kPauses = 2000;
constexpr int64_t kMostChunks = 65535;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns once `word` is no longer `old`.
void Await(const std::atomic<uint32_t>& word, uint32_t old) {
  for (int i = 0; i < kPauses; ++i) {
    if (word.load(std::memory_order_acquire) != old) return;
    Pause();
  }
  word.wait(old, std::memory_order_acquire);
}

constexpr uint64_t LoopOf(uint64_t claims) { return claims >> 32; }
constexpr int64_t ChunksOf(uint64_t claims) { return static_cast<int64_t>(claims >> 16 & 0xffff); }
constexpr int64_t ClaimedOf(uint64_t claims) { return static_cast<int64_t>(claims & 0xffff); }

}  // namespace

ThreadTeam::ThreadTeam(int threads) {
  if (threads < 1) throw UsageError(StrCat("threads: at least 1 is needed, not ", threads));
  workers_.reserve(static_cast<size_t>(threads - 1));
  for (int thread = 1; thread < threads; ++thread) {
    workers_.emplace_back([this, thread] { Work(thread); });
  }
}

ThreadTeam::~ThreadTeam() {
  stop_.store(true, std::memory_order_relaxed);
  posted_.fetch_add(1, std::memory_order_release);
  posted_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::RunErased(int64_t items, int64_t grain, void* function, Call call) {
  THINWIRE_CHECK(items >= 0 && grain >= 1, items, " by ", grain);
  const int64_t chunks = items / grain + (items % grain != 0 ? 1 : 0);
  if (workers_.empty() || chunks <= 1) {
    for (int64_t begin = 0; begin < items; begin += grain) {
      call(function, begin, std::min(items, begin + grain), 0);
    }
    return;
  }
  THINWIRE_CHECK(chunks <= kMostChunks, items, " by ", grain);
  function_.store(function, std::memory_order_relaxed);
  call_.store(call, std::memory_order_relaxed);
  items_.store(items, std::memory_order_relaxed);
  grain_.store(grain, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  const uint64_t loop = LoopOf(claims_.load(std::memory_order_relaxed)) + 1;
  claims_.store(loop << 32 | static_cast<uint64_t>(chunks) << 16, std::memory_order_release);
  posted_.fetch_add(1, std::memory_order_release);
  posted_.notify_all();
  Help(0);
  for (uint32_t done; (done = done_.load(std::memory_order_acquire)) != chunks;) {
    Await(done_, done);
  }
}

void ThreadTeam::Help(int thread) noexcept {
  for (;;) {
    uint64_t claims = claims_.load(std::memory_order_acquire);
    const int64_t chunk = ClaimedOf(claims), chunks = ChunksOf(claims);
    if (chunk >= chunks) return;
    void* const function = function_.load(std::memory_order_relaxed);
    const Call call = call_.load(std::memory_order_relaxed);
    const int64_t items = items_.load(std::memory_order_relaxed);
    const int64_t grain = grain_.load(std::memory_order_relaxed);
    // Succeeds only while this loop is in progress and this chunk unclaimed, so what was read above
    // is this loop's.
    if (!claims_.compare_exchange_weak(claims, claims + 1, std::memory_order_acq_rel)) continue;
    const int64_t begin = chunk * grain;
    call(function, begin, std::min(items, begin + grain), thread);
    if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == chunks) done_.notify_all();
  }
}

void ThreadTeam::Work(int thread) noexcept {
  for (uint32_t seen = 0;;) {
    Await(posted_, seen);
    seen = posted_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    Help(thread);
  }
}

}  // namespace thinwire
