// Two threads that run the exchanges of one hop level in the order of the program, a few in flight:
// one posts receives and sends, the other waits for what peers sent and takes it in.
//
// The order of jobs is the same on every rank, so a job never waits for one behind it and the
// lanes of all ranks cannot block each other. Within a window receives are posted ahead, and a job
// is sent as soon as it and all before it are ready, though the ones before still wait for their
// peers: that keeps the link busy in this rank's direction.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "thinwire/comm/exchange.h"
#include "thinwire/comm/monitor.h"

namespace thinwire::comm {

// One exchange in the order of a lane. The lane calls, once each and in this order: Prepare, Ready
// until it is true, Launch by one thread, then Complete and Finished by the other. While one job is
// launched another may be completed.
class Job {
 public:
  virtual ~Job() = default;
  virtual void Prepare(MessageSlot& slot, transport::Tag tag) = 0;
  virtual bool Ready() = 0;  // with the monitor's lock held
  // It is not ready, and the thread has nothing else to do until it is. With the lock held.
  virtual void Awaited() {}
  virtual void Launch(MessageSlot& slot) = 0;
  virtual void Complete(MessageSlot& slot) = 0;
  virtual void Finished() = 0;  // with the monitor's lock held
  // For error messages, e.g. "slow gather of layers.3, step 12".
  virtual std::string Describe() const = 0;
};

struct LaneOptions {
  int64_t slot_bytes = 0;  // message memory per job in flight
  int members = 1;
  int window = 2;  // jobs in flight
  // Of the threads with " out" or " in" behind it, for tools that list them: 11 characters at most.
  const char* name = "";
  uint32_t tag_base = 0;  // bit 29 or 30; the tag of job k is tag_base + k mod 2^29
};

class Lane {
 public:
  // `failed` is called when a job throws (with the error annotated by the job), by either thread.
  Lane(Monitor& monitor, const LaneOptions& options,
       std::function<void(std::exception_ptr)> failed);
  ~Lane();  // stops after the jobs in flight; abort the transport first when they may never end

  // Adds a job, which stays alive and is not added again until it is finished. With the monitor's
  // lock held. The capacity grows by reallocation only.
  void PushLocked(Job* job);
  // True when every job pushed so far is finished. With the lock held.
  bool IdleLocked() const { return completed_ == pushed_; }

 private:
  enum class Thread : uint8_t { kOut, kIn };
  void Run(Thread thread);
  // Do one thing each; false when there is nothing more to do.
  bool Send();
  bool TakeIn();
  // False when the job threw, which has been reported then.
  template <typename Part>
  bool Perform(Job& job, Part&& part);
  Job* JobAt(uint64_t index) const { return ring_[static_cast<size_t>(index % ring_.size())]; }
  MessageSlot& SlotOf(uint64_t index) { return slots_[static_cast<size_t>(index % slots_.size())]; }

  Monitor& monitor_;
  LaneOptions options_;
  std::function<void(std::exception_ptr)> failed_;
  std::vector<MessageSlot> slots_;
  std::vector<Job*> ring_;                // jobs by index mod size
  uint64_t pushed_ = 0, completed_ = 0;   // with the monitor's lock held
  uint64_t prepared_ = 0, launched_ = 0;  // of the thread that sends
  uint64_t taken_in_ = 0;                 // of the other one
  bool stop_ = false;                     // with the monitor's lock held

  // From the thread that sends to the other one, whom nobody else has to wake.
  std::mutex sent_mutex_;
  std::condition_variable sent_changed_;
  uint64_t sent_ = 0;      // jobs launched
  bool sent_all_ = false;  // there will be no more
  std::thread out_, in_;
};

}  // namespace thinwire::comm
