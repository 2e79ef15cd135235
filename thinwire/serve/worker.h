// The one thread that uses the engine: takes jobs in, runs passes, lets go of what nobody wants.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "thinwire/infer/engine.h"
#include "thinwire/serve/job.h"

namespace thinwire::serve {

struct WorkerCounts {
  int64_t running = 0, waiting = 0;  // jobs now
  int64_t prompt_tokens = 0, reused_tokens = 0, answer_tokens = 0;
  int64_t guessed_tokens = 0, right_guesses = 0;
  int64_t passes = 0;
  double busy_seconds = 0;
  int64_t cancelled = 0;  // jobs that nobody wanted any more
};

class Worker {
 public:
  // At most `queue` jobs wait. `engine` must outlive this, and is used by nobody else.
  Worker(infer::Engine& engine, int64_t queue);
  // As Stop.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // False when the queue is full or the worker was stopped; the job was not taken then.
  bool Enter(std::shared_ptr<Job> job);
  // Fails all jobs and ends the thread.
  void Stop();
  WorkerCounts counts() const;

 private:
  void Run();
  // Waits for work; false to end.
  bool TakeJobs();
  void Submit(const std::shared_ptr<Job>& job);
  void LetGo();
  void Pass();
  void FailAll(const std::string& message);
  void Publish(double seconds);

  infer::Engine& engine_;
  const int64_t most_jobs_;
  std::map<int64_t, std::shared_ptr<Job>> live_;  // by the scheduler's numbers

  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::vector<std::shared_ptr<Job>> entered_;
  int64_t jobs_ = 0;  // entered and not ended
  bool stopping_ = false;
  WorkerCounts counts_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace thinwire::serve
