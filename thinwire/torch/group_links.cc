#include "thinwire/torch/group_links.h"

#include <optional>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "thinwire/base/error.h"
#include "thinwire/torch/c10d_transport.h"
#include "thinwire/torch/machine.h"
#include "thinwire/torch/near_links.h"
#include "thinwire/torch/patient_store.h"
#include "thinwire/torch/short_reason.h"
#include "thinwire/torch/store_board.h"
#include "thinwire/transport/in_process_board.h"
#include "thinwire/transport/thread_transport.h"

namespace thinwire::adapter {

using std::chrono::milliseconds;

struct GroupLinks::Impl {
  virtual ~Impl() = default;
  virtual zero::Links links() = 0;

  int rank = 0;
  std::vector<std::string> machine_of_rank{"this"};
  std::string near_link;
  int near_peers = 0;

  struct Alone;
  struct Joined;
};

struct GroupLinks::Impl::Alone final : Impl {
  zero::Links links() override { return {bulk.transport(0), control.transport(0), board}; }

  transport::ThreadFabric bulk{1}, control{1};
  transport::InProcessBoard board{1};
};

namespace {

c10::intrusive_ptr<c10d::ProcessGroup> GroupNamed(const std::string& name) {
  try {
    return c10d::resolve_process_group(name);
  } catch (const std::exception& error) {
    throw UsageError(StrCat("no process group named ", name, ": ", ShortReason(error)));
  }
}

std::unique_ptr<C10dTransport> Over(c10d::ProcessGroup& group) {
  return std::make_unique<C10dTransport>(group.getBackend(c10::DeviceType::CPU), group.getRank(),
                                         group.getSize());
}

// Every rank says where it runs and reads where the others do.
std::vector<std::string> ExchangeMachines(PatientStore& store, int rank, int world,
                                          milliseconds deadline) {
  const auto key = [](int r) { return StrCat("machine/", r); };
  std::vector<std::string> machines;
  store.Call(deadline, [key = key(rank)](c10d::Store& s) {
    const std::string here = ThisMachine();
    s.set(key, std::vector<uint8_t>(here.begin(), here.end()));
    return std::string();
  });
  for (int r = 0; r < world; ++r) {
    machines.push_back(store.Call(deadline, [key = key(r), deadline](c10d::Store& s) {
      s.wait({key}, deadline);
      const std::vector<uint8_t> bytes = s.get(key);
      return std::string(bytes.begin(), bytes.end());
    }));
  }
  return machines;
}

}  // namespace

struct GroupLinks::Impl::Joined final : Impl {
  Joined(c10d::ProcessGroup& bulk_group, c10d::ProcessGroup& control_group,
         const c10::intrusive_ptr<c10d::Store>& shared_store, milliseconds deadline,
         NearLinks::Wish wish)
      : bulk(Over(bulk_group)),
        control(Over(control_group)),
        store(shared_store->clone(), StrCat("rank ", bulk_group.getRank()),
              "the store of torch.distributed"),
        board(store, bulk_group.getRank(), deadline) {
    rank = bulk_group.getRank();
    machine_of_rank = ExchangeMachines(store, rank, bulk_group.getSize(), deadline);
    near.emplace(store, machine_of_rank, *bulk, deadline, wish);
    near_link = near->description();
    near_peers = near->peers();
  }

  zero::Links links() override { return {near->bulk(), *control, board}; }

  std::unique_ptr<C10dTransport> bulk, control;
  PatientStore store;
  StoreBoard board;
  std::optional<NearLinks> near;
};

GroupLinks::GroupLinks() : impl_(std::make_unique<Impl::Alone>()) {}

GroupLinks::GroupLinks(const std::string& bulk, const std::string& control,
                       const c10::intrusive_ptr<c10d::Store>& store, milliseconds deadline,
                       bool shared_memory, int ranks_per_host)
    : impl_(std::make_unique<Impl::Joined>(
          *GroupNamed(bulk), *GroupNamed(control), store, deadline,
          NearLinks::Wish{.shared_memory = shared_memory, .ranks_per_host = ranks_per_host})) {}

GroupLinks::~GroupLinks() = default;
zero::Links GroupLinks::links() { return impl_->links(); }
int GroupLinks::rank() const { return impl_->rank; }
int GroupLinks::world() const { return static_cast<int>(impl_->machine_of_rank.size()); }
const std::vector<std::string>& GroupLinks::machine_of_rank() const {
  return impl_->machine_of_rank;
}
const std::string& GroupLinks::near_link() const { return impl_->near_link; }
int GroupLinks::near_peers() const { return impl_->near_peers; }

}  // namespace thinwire::adapter
