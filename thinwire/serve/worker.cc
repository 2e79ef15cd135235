#include "thinwire/serve/worker.h"

#include <chrono>
#include <exception>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::serve {

Worker::Worker(infer::Engine& engine, int64_t queue)
    : engine_(engine),
      most_jobs_(engine.decoder().limits().cache.sequences + queue),
      thread_([this] { Run(); }) {}

Worker::~Worker() { Stop(); }

void Worker::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  news_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool Worker::Enter(std::shared_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || jobs_ >= most_jobs_) return false;
    ++jobs_;
    entered_.push_back(std::move(job));
  }
  news_.notify_all();
  return true;
}

WorkerCounts Worker::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

bool Worker::TakeJobs() {
  std::vector<std::shared_ptr<Job>> taken;
  {
    std::unique_lock lock(mutex_);
    news_.wait(lock, [this] { return stopping_ || !entered_.empty() || !live_.empty(); });
    taken.swap(entered_);
    if (stopping_) {
      lock.unlock();
      for (const auto& job : taken) job->Fail("the server is stopping");
      return false;
    }
  }
  for (const auto& job : taken) Submit(job);
  return true;
}

void Worker::Submit(const std::shared_ptr<Job>& job) {
  try {
    infer::Request request = job->MakeRequest();
    const auto prompt = std::ssize(request.prompt);
    live_.emplace(engine_.scheduler().Submit(std::move(request)), job);
    const std::lock_guard lock(mutex_);
    counts_.prompt_tokens += prompt;
  } catch (const std::exception& error) {
    job->Fail(error.what());
  }
}

// Also counts tokens of answers, as they end.
void Worker::LetGo() {
  int64_t cancelled = 0, tokens = 0;
  std::erase_if(live_, [&](const auto& entry) {
    const auto& [number, job] = entry;
    if (job->outcome() == Outcome::kUnfinished) {
      if (!job->Unwanted()) return false;
      engine_.scheduler().Cancel(number);
      job->Abort();
    }
    if (job->outcome() == Outcome::kTimeout) ++cancelled;
    if (const auto* answer = dynamic_cast<const Answer*>(job.get())) tokens += answer->tokens();
    return true;
  });
  const std::lock_guard lock(mutex_);
  counts_.cancelled += cancelled;
  counts_.answer_tokens += tokens;
  jobs_ = std::ssize(live_) + std::ssize(entered_);
}

void Worker::FailAll(const std::string& message) {
  for (const auto& [number, job] : live_) {
    engine_.scheduler().Cancel(number);
    job->Fail(message);
  }
}

void Worker::Publish(double seconds) {
  const std::lock_guard lock(mutex_);
  counts_.running = engine_.scheduler().running();
  counts_.waiting = engine_.scheduler().waiting() + std::ssize(entered_);
  counts_.reused_tokens = engine_.scheduler().reused_tokens();
  counts_.guessed_tokens = engine_.scheduler().guessed_tokens();
  counts_.right_guesses = engine_.scheduler().right_guesses();
  counts_.busy_seconds += seconds;
  ++counts_.passes;
}

void Worker::Pass() {
  const auto start = Clock::now();
  try {
    engine_.scheduler().Step();
  } catch (const std::exception& error) {
    // A pass that failed leaves no request that could go on.
    FailAll(error.what());
  }
  LetGo();
  Publish(std::chrono::duration<double>(Clock::now() - start).count());
}

void Worker::Run() {
  while (TakeJobs()) {
    LetGo();
    Pass();
  }
  FailAll("the server is stopping");
  LetGo();
}

}  // namespace thinwire::serve
