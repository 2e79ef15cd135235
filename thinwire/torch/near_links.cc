#include "thinwire/torch/near_links.h"

#include <algorithm>
#include <optional>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::adapter {
namespace {

using std::chrono::milliseconds;

// What a rank says in place of a door that it does not have.
constexpr char kNoDoor[] = "-";

// Between local processes that have just met in the store.
constexpr milliseconds kPatience{5000};

// Every rank of the machine says something and hears what the others say, in their order.
std::vector<std::string> Exchange(PatientStore& store, const std::string& topic,
                                  const std::vector<int>& ranks, int rank, const std::string& mine,
                                  milliseconds deadline) {
  store.Call(deadline, [key = StrCat(topic, "/", rank), mine](c10d::Store& s) {
    s.set(key, std::vector<uint8_t>(mine.begin(), mine.end()));
    return std::string();
  });
  std::vector<std::string> said;
  for (const int other : ranks) {
    said.push_back(
        store.Call(deadline, [key = StrCat(topic, "/", other), deadline](c10d::Store& s) {
          s.wait({key}, deadline);
          const std::vector<uint8_t> bytes = s.get(key);
          return std::string(bytes.begin(), bytes.end());
        }));
  }
  return said;
}

}  // namespace

NearLinks::NearLinks(PatientStore& store, const std::vector<std::string>& machine_of_rank,
                     transport::Transport& far, milliseconds deadline, Wish wish)
    : far_(far) {
  const bool wanted = wish.shared_memory;
  const int rank = far.rank();
  const auto same_host = [&](int other) {
    return wish.ranks_per_host <= 0 || other / wish.ranks_per_host == rank / wish.ranks_per_host;
  };
  std::vector<int> ranks;  // of this machine
  for (int r = 0; r < far.size(); ++r) {
    if (machine_of_rank.at(static_cast<size_t>(r)) == machine_of_rank[static_cast<size_t>(rank)] &&
        same_host(r)) {
      ranks.push_back(r);
    }
  }
  if (ranks.size() == 1) return;
  std::string failure = wanted ? "" : "switched off";
  const auto attempt = [&](auto&& act) {
    try {
      act();
    } catch (const IoError& error) {
      failure = error.what();
    }
  };
  std::optional<transport::SharedDoor> door;
  if (wanted) attempt([&] { door.emplace(); });
  const std::vector<std::string> doors =
      Exchange(store, "door", ranks, rank, door ? door->name() : kNoDoor, deadline);

  // Those that have a door meet: the same on all of them.
  std::vector<int> guests;
  transport::SharedDoor::Setup setup{
      .names = {}, .me = 0, .patience = std::min(deadline, kPatience)};
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (doors[i] == kNoDoor) continue;
    if (ranks[i] == rank) setup.me = static_cast<int>(guests.size());
    guests.push_back(ranks[i]);
    setup.names.push_back(doors[i]);
  }
  if (door && guests.size() < ranks.size()) failure = "a rank of this machine has it off";
  std::optional<transport::MeetingResult> met;
  if (door) attempt([&] { met.emplace(door->Meet(setup)); });
  if (met && failure.empty()) failure = met->failure;

  // A pair counts only where both say so: one of them may have given up on the other.
  std::string mine(static_cast<size_t>(far.size()), '0');
  if (met) {
    for (const transport::SharedPeer& peer : met->peers) {
      mine[static_cast<size_t>(guests[static_cast<size_t>(peer.member)])] = '1';
    }
  }
  const std::vector<std::string> said = Exchange(store, "met", ranks, rank, mine, deadline);
  std::vector<bool> near(mine.size(), false);
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto other = static_cast<size_t>(ranks[i]);
    near[other] = mine[other] == '1' && said[i].at(static_cast<size_t>(rank)) == '1';
    if (ranks[i] != rank && !near[other] && failure.empty()) failure = "a rank could not map it";
  }
  description_ =
      failure.empty() ? "shared memory" : StrCat("network (no shared memory: ", failure, ")");
  peers_ = static_cast<int>(std::ranges::count(near, true));
  if (peers_ == 0) return;
  std::erase_if(met->peers, [&](const transport::SharedPeer& peer) {
    return !near[static_cast<size_t>(guests[static_cast<size_t>(peer.member)])];
  });
  near_ = std::make_unique<transport::SharedTransport>(far.size(), guests, setup.me,
                                                       std::move(met->own), std::move(met->peers));
  routed_ = std::make_unique<transport::RoutedTransport>(*near_, near, far);
  if (!failure.empty()) {
    description_ = StrCat("shared memory and network (", failure, ")");
  }
}

}  // namespace thinwire::adapter
