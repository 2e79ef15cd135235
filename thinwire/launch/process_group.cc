#include "thinwire/launch/process_group.h"

#include <exception>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "thinwire/base/error.h"
#include "thinwire/launch/interface.h"
#include "thinwire/launch/rendezvous.h"
#include "thinwire/torch/c10d_transport.h"
#include "thinwire/torch/near_links.h"
#include "thinwire/torch/short_reason.h"
#include "thinwire/torch/store_board.h"
#include "thinwire/transport/in_process_board.h"
#include "thinwire/transport/thread_transport.h"

namespace thinwire::launch {

using std::chrono::milliseconds;

class ProcessGroup::Impl {
 public:
  virtual ~Impl() = default;
  virtual transport::Transport& bulk() = 0;
  virtual transport::Transport& control() = 0;
  virtual transport::HeartbeatBoard& board() = 0;
  virtual const std::vector<std::string>& machine_of_rank() const = 0;
  virtual const std::string& near_link() const = 0;
  virtual int near_peers() const = 0;

  class Alone;
  class Joined;
};

// A world of one needs no network.
class ProcessGroup::Impl::Alone final : public Impl {
 public:
  transport::Transport& bulk() override { return bulk_.transport(0); }
  transport::Transport& control() override { return control_.transport(0); }
  transport::HeartbeatBoard& board() override { return board_; }
  const std::vector<std::string>& machine_of_rank() const override { return machine_of_rank_; }
  const std::string& near_link() const override { return near_link_; }
  int near_peers() const override { return 0; }

 private:
  transport::ThreadFabric bulk_{1}, control_{1};
  transport::InProcessBoard board_{1};
  const std::vector<std::string> machine_of_rank_{"this"};
  const std::string near_link_;
};

class ProcessGroup::Impl::Joined final : public Impl {
 public:
  Joined(const LaunchEnvironment& environment, milliseconds deadline,
         adapter::NearLinks::Wish wish);
  ~Joined() override;

  transport::Transport& bulk() override { return near_->bulk(); }
  transport::Transport& control() override { return *control_; }
  transport::HeartbeatBoard& board() override { return board_; }
  const std::vector<std::string>& machine_of_rank() const override {
    return rendezvous_.machine_of_rank();
  }
  const std::string& near_link() const override { return near_->description(); }
  int near_peers() const override { return near_->peers(); }

 private:
  std::unique_ptr<adapter::C10dTransport> Open(const LaunchEnvironment& environment,
                                               const char* name, milliseconds deadline);

  const std::string interface_;
  Rendezvous rendezvous_;
  adapter::StoreBoard board_;
  std::unique_ptr<adapter::C10dTransport> bulk_, control_;
  std::unique_ptr<adapter::NearLinks> near_;
};

namespace {

std::string ChosenInterface(const LaunchEnvironment& environment) {
  if (environment.interface.empty()) return InterfaceTowards(environment.master_address);
  CheckInterface(environment.interface);
  return environment.interface;
}

}  // namespace

// The store's host gets as long for an answer as every rank gets for a beat.
ProcessGroup::Impl::Joined::Joined(const LaunchEnvironment& environment, milliseconds deadline,
                                   adapter::NearLinks::Wish wish)
    : interface_(ChosenInterface(environment)),
      rendezvous_(environment, deadline),
      board_(rendezvous_.patient_store(), environment.rank, deadline) {
  rendezvous_.Join(interface_);
  bulk_ = Open(environment, "bulk", deadline);
  control_ = Open(environment, "control", deadline);
  near_ = std::make_unique<adapter::NearLinks>(
      rendezvous_.patient_store(), rendezvous_.machine_of_rank(), *bulk_, deadline, wish);
}

// Each group has a device of its own: an IO thread and a set of sockets, so that small messages of
// one never wait behind large ones of the other.
std::unique_ptr<adapter::C10dTransport> ProcessGroup::Impl::Joined::Open(
    const LaunchEnvironment& environment, const char* name, milliseconds deadline) {
  try {
    const auto options = c10d::ProcessGroupGloo::Options::create(deadline);
    options->threads = 1;  // they run collectives, of which there are none
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(interface_));
    const auto store = c10::make_intrusive<c10d::PrefixStore>(name, rendezvous_.store());
    return std::make_unique<adapter::C10dTransport>(
        c10::make_intrusive<c10d::ProcessGroupGloo>(store, environment.rank, environment.world,
                                                    options),
        environment.rank, environment.world);
  } catch (const std::exception& error) {
    throw PeerError(StrCat("rank ", environment.rank, " could not connect to its peers over ",
                           interface_, ": ", adapter::ShortReason(error),
                           " (set THINWIRE_INTERFACE if that is the wrong one)"));
  }
}

ProcessGroup::Impl::Joined::~Joined() {
  const bool failed =
      std::uncaught_exceptions() > 0 || !near_ || bulk_->aborted() || control_->aborted();
  if (failed) {
    // Closed connections tell the peers at once.
    near_.reset();
    bulk_.reset();
    control_.reset();
  }
  rendezvous_.Leave(failed);
}

ProcessGroup::ProcessGroup(const LaunchEnvironment& environment, milliseconds deadline,
                           bool shared_memory, int ranks_per_host) {
  if (environment.world == 1) {
    impl_ = std::make_unique<Impl::Alone>();
  } else {
    impl_ = std::make_unique<Impl::Joined>(
        environment, deadline,
        adapter::NearLinks::Wish{.shared_memory = shared_memory, .ranks_per_host = ranks_per_host});
  }
}

ProcessGroup::~ProcessGroup() = default;
transport::Transport& ProcessGroup::bulk() { return impl_->bulk(); }
transport::Transport& ProcessGroup::control() { return impl_->control(); }
transport::HeartbeatBoard& ProcessGroup::board() { return impl_->board(); }
const std::vector<std::string>& ProcessGroup::machine_of_rank() const {
  return impl_->machine_of_rank();
}
const std::string& ProcessGroup::near_link() const { return impl_->near_link(); }
int ProcessGroup::near_peers() const { return impl_->near_peers(); }

}  // namespace thinwire::launch
