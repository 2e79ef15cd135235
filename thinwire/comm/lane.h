// One thread that runs the exchanges of one hop level in the order of the program, a few in flight.
//
// The order of jobs is the same on every rank, so a job never waits for one behind it and the
// lanes of all ranks cannot block each other. Within a window the lane posts receives ahead and
// sends the next job before it completes the one before, which keeps the link busy.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "thinwire/comm/exchange.h"
#include "thinwire/comm/monitor.h"

namespace thinwire::comm {

// One exchange in the order of a lane. The lane calls, once each and in this order: Prepare, Ready
// until it is true, Launch, Complete, Finished.
class Job {
 public:
  virtual ~Job() = default;
  virtual void Prepare(MessageSlot& slot, transport::Tag tag) = 0;
  virtual bool Ready() = 0;  // with the monitor's lock held
  // It is not ready, and the lane has nothing else to do until it is or more comes. With the
  // monitor's lock held.
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
  int window = 2;         // jobs in flight
  const char* name = "";  // of the thread, for tools that list threads: at most 15 characters
  uint32_t tag_base = 0;  // bit 29 or 30; the tag of job k is tag_base + k mod 2^29
};

class Lane {
 public:
  // `failed` is called, once, when a job throws (with the error annotated by the job).
  Lane(Monitor& monitor, const LaneOptions& options,
       std::function<void(std::exception_ptr)> failed);
  ~Lane();  // stops after the jobs in flight; abort the transport first when they may never end

  // Adds a job, which stays alive and is not added again until it is finished. With the monitor's
  // lock held. The capacity grows by reallocation only.
  void PushLocked(Job* job);
  // True when every job pushed so far is finished. With the lock held.
  bool IdleLocked() const { return completed_ == pushed_; }

 private:
  void Run();
  bool Step();  // false when the lane is to stop
  Job* JobAt(uint64_t index) const { return ring_[static_cast<size_t>(index % ring_.size())]; }
  MessageSlot& SlotOf(uint64_t index) { return slots_[static_cast<size_t>(index % slots_.size())]; }

  Monitor& monitor_;
  LaneOptions options_;
  std::function<void(std::exception_ptr)> failed_;
  std::vector<MessageSlot> slots_;
  std::vector<Job*> ring_;  // jobs by index mod size
  uint64_t pushed_ = 0, prepared_ = 0, launched_ = 0, completed_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace thinwire::comm
