// A few threads that share out loops of some microseconds, thousands of times a second, on cores
// that may be shared with others.
//
// Chunks are claimed one by one, and the caller claims too: a thread that is not running holds
// nothing up unless it was stopped in the middle of a chunk. Nothing is allocated by Run.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace thinwire {

class ThreadTeam {
 public:
  // `threads` >= 1, the caller of Run among them.
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls f(begin, end, thread) for ranges of `grain` (>= 1; the last may be shorter) that cover
  // [0, items), in no order, 0 <= thread < threads(); returns when all have returned. There may be
  // at most 65,535 of them. Everything f wrote is then
  // visible to the caller. f must not throw. One Run at a time: neither nested nor from two
  // threads.
  template <typename F>
  void Run(int64_t items, int64_t grain, F&& f) {
    using Function = std::remove_reference_t<F>;
    RunErased(items, grain, &f, [](void* function, int64_t begin, int64_t end, int thread) {
      (*static_cast<Function*>(function))(begin, end, thread);
    });
  }

 private:
  using Call = void (*)(void* function, int64_t begin, int64_t end, int thread);

  void RunErased(int64_t items, int64_t grain, void* function, Call call);
  // Claims and runs chunks of the loop in progress until none is left.
  void Help(int thread) noexcept;
  void Work(int thread) noexcept;

  // The loop in progress. Written by the caller between loops; a thread that reads it may use it
  // once it has claimed a chunk of that loop, which keeps it from ending.
  std::atomic<void*> function_{nullptr};
  std::atomic<Call> call_{nullptr};
  std::atomic<int64_t> items_{0};
  std::atomic<int64_t> grain_{1};
  // From the top: 32 bits number of the loop, 16 its chunks, 16 those claimed. One word, so that a
  // claim is of the loop that its claimant looked at.
  alignas(64) std::atomic<uint64_t> claims_{0};
  alignas(64) std::atomic<uint32_t> done_{0};    // chunks that have returned
  alignas(64) std::atomic<uint32_t> posted_{0};  // loops begun; workers sleep on it
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace thinwire
