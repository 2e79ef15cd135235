#include "thinwire/torch/patient_store.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/torch/short_reason.h"

namespace thinwire::adapter {

// Shared with the thread, which may outlive the PatientStore when a call never returns.
struct PatientStore::Worker {
  explicit Worker(c10::intrusive_ptr<c10d::Store> the_store) : store(std::move(the_store)) {}

  const c10::intrusive_ptr<c10d::Store> store;
  std::mutex callers;  // held by the one whose job it is

  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  Job job;  // empty: nothing to do
  bool done = false;
  bool stop = false;
  std::string result;
  std::optional<std::string> error;  // of the job just done
  std::optional<std::string> given_up;
  std::thread thread;
};

PatientStore::PatientStore(c10::intrusive_ptr<c10d::Store> store, std::string who,
                           std::string where)
    : who_(std::move(who)),
      where_(std::move(where)),
      worker_(std::make_shared<Worker>(std::move(store))) {
  worker_->thread = std::thread([worker = worker_] { Serve(worker); });
}

PatientStore::~PatientStore() {
  {
    std::lock_guard lock(worker_->mutex);
    worker_->stop = true;
    worker_->changed.notify_all();
    if (worker_->given_up) {
      worker_->thread.detach();
      return;
    }
  }
  worker_->thread.join();
}

void PatientStore::Serve(const std::shared_ptr<Worker>& worker) {
  std::unique_lock lock(worker->mutex);
  while (true) {
    worker->changed.wait(lock, [&] { return worker->stop || worker->job; });
    if (worker->stop) return;
    const Job job = std::exchange(worker->job, nullptr);
    std::string result;
    std::optional<std::string> error;
    lock.unlock();
    try {
      result = job(*worker->store);
    } catch (const std::exception& failure) {
      error = ShortReason(failure);
    }
    lock.lock();
    worker->result = std::move(result);
    worker->error = std::move(error);
    worker->done = true;
    worker->changed.notify_all();
  }
}

std::string PatientStore::Call(std::chrono::milliseconds patience, Job job) {
  Worker& worker = *worker_;
  std::lock_guard turn(worker.callers);
  std::unique_lock lock(worker.mutex);
  if (worker.given_up) throw PeerError(*worker.given_up);
  worker.done = false;
  worker.job = std::move(job);
  worker.changed.notify_all();
  if (!worker.changed.wait_for(lock, patience, [&] { return worker.done; })) {
    GiveUp(StrCat("no answer for ", static_cast<double>(patience.count()) / 1000, " s"));
  }
  if (worker.error) GiveUp(*worker.error);
  return std::move(worker.result);
}

void PatientStore::GiveUp(const std::string& reason) {
  worker_->given_up = StrCat(who_, " lost contact with ", where_, ": ", reason);
  throw PeerError(*worker_->given_up);
}

}  // namespace thinwire::adapter
