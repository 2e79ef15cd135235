// A c10d store whose calls end in time. A TCPStore call blocks for good when the process that hosts
// the store was stopped, so calls run on a thread of their own that can be left behind.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace c10d {
class Store;
}

namespace thinwire::adapter {

// Thread-safe; one call at a time.
class PatientStore {
 public:
  using Job = std::function<std::string(c10d::Store&)>;

  // `store` is this object's own: TCPStore serializes its callers. `who` begins the error messages
  // ("rank 3"), `where` says which store ("the store at 10.0.0.1:29500, which rank 0 hosts").
  PatientStore(c10::intrusive_ptr<c10d::Store> store, std::string who, std::string where);
  ~PatientStore();
  PatientStore(const PatientStore&) = delete;
  PatientStore& operator=(const PatientStore&) = delete;

  // Runs `job` and returns its result. Throws PeerError when it fails or takes longer than
  // `patience`; after that the connection is given up and every call throws at once.
  std::string Call(std::chrono::milliseconds patience, Job job);

 private:
  struct Worker;
  static void Serve(const std::shared_ptr<Worker>& worker);
  [[noreturn]] void GiveUp(const std::string& reason);

  const std::string who_, where_;
  std::shared_ptr<Worker> worker_;
};

}  // namespace thinwire::adapter
