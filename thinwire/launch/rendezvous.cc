#include "thinwire/launch/rendezvous.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "thinwire/base/error.h"
#include "thinwire/launch/interface.h"
#include "thinwire/torch/machine.h"
#include "thinwire/torch/short_reason.h"

namespace thinwire::launch {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPollInterval{20};

double Seconds(milliseconds time) { return static_cast<double>(time.count()) / 1000; }

struct Resolved {
  sockaddr_storage address{};
  socklen_t length = 0;
};

bool IsLoopbackAddress(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

// Where rank 0 listens for those that come to `master`: on the loopback when that is all that
// `master` names, so that no other machine reaches the store of a run on one; else everywhere.
std::vector<Resolved> ListeningAddresses(const std::string& master, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  std::vector<Resolved> loopbacks;
  bool others = getaddrinfo(master.c_str(), std::to_string(port).c_str(), &hints, &found) != 0;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    others = others || !IsLoopbackAddress(*each->ai_addr);
    Resolved resolved{.length = each->ai_addrlen};
    std::memcpy(&resolved.address, each->ai_addr, each->ai_addrlen);
    loopbacks.push_back(resolved);
  }
  if (found != nullptr) freeaddrinfo(found);
  if (!others && !loopbacks.empty()) return loopbacks;
  const auto any_port = htons(static_cast<uint16_t>(port));
  Resolved v6{.length = sizeof(sockaddr_in6)}, v4{.length = sizeof(sockaddr_in)};
  v6.address.ss_family = AF_INET6;
  reinterpret_cast<sockaddr_in6&>(v6.address).sin6_port = any_port;
  v4.address.ss_family = AF_INET;
  reinterpret_cast<sockaddr_in&>(v4.address).sin_port = any_port;
  return {v6, v4};
}

// A socket that listens on `port`. Bound here rather than by TCPStore, so that a taken port is one
// line instead of a C++ stack.
int ListenOn(const std::string& master, int port) {
  int error = 0;
  for (const Resolved& at : ListeningAddresses(master, port)) {
    const int family = at.address.ss_family;
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      error = errno;
      continue;
    }
    const int on = 1, off = 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(fd, reinterpret_cast<const sockaddr*>(&at.address), at.length) == 0 &&
        listen(fd, SOMAXCONN) == 0) {
      return fd;
    }
    error = errno;
    close(fd);
    if (error == EADDRINUSE) break;  // IPv4 would only hide a listener on the other family
  }
  throw UsageError(StrCat("rank 0 cannot listen on MASTER_PORT=", port, ": ", std::strerror(error),
                          "; set MASTER_PORT to a free port, the same on all ranks (torchrun: "
                          "--master-port)"));
}

bool Reachable(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return false;
  bool reached = false;
  for (const addrinfo* each = found; each != nullptr && !reached; each = each->ai_next) {
    const int fd = socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    // A host that drops packets instead of refusing them must not eat the whole deadline.
    const timeval patience{.tv_sec = 1, .tv_usec = 0};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    reached = connect(fd, each->ai_addr, each->ai_addrlen) == 0;
    close(fd);
  }
  freeaddrinfo(found);
  return reached;
}

std::string HereKey(int rank) { return StrCat("here/", rank); }

}  // namespace

Rendezvous::Rendezvous(const LaunchEnvironment& environment, milliseconds deadline)
    : environment_(environment),
      deadline_(deadline),
      end_(Clock::now() + deadline),
      hosts_store_(environment.rank == 0 && !environment.agent_hosts_store) {
  Connect();
}

Rendezvous::~Rendezvous() {
  if (!left_) Leave(true);
}

void Rendezvous::Join(const std::string& interface) {
  Announce(interface);
  AwaitAll();
  ReadAll();
}

void Rendezvous::Connect() {
  const std::string& address = environment_.master_address;
  const int port = environment_.master_port;
  const std::string who = StrCat("rank ", environment_.rank);
  const std::string where =
      StrCat("the store at ", address, ":", port, ", which ",
             environment_.agent_hosts_store ? "the launcher's agent" : "rank 0", " hosts");
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.isServer = hosts_store_;
  options.waitWorkers = false;
  options.timeout = deadline_;
  if (hosts_store_) {
    options.masterListenFd = ListenOn(address, port);
  } else {
    // TCPStore would retry as well, but log a C++ stack for each failure.
    while (!Reachable(address, port)) {
      if (Clock::now() > end_) {
        throw PeerError(StrCat(who, " did not reach ", where, ", within ", Seconds(deadline_),
                               " s: check MASTER_ADDR, that rank 0 runs, and the firewall"));
      }
      std::this_thread::sleep_for(kPollInterval);
    }
  }
  try {
    const std::string prefix = StrCat("thinwire/", environment_.attempt);
    const auto tcp = c10::make_intrusive<c10d::TCPStore>(address, options);
    store_ = c10::make_intrusive<c10d::PrefixStore>(prefix + "/groups", tcp);
    patient_ = std::make_unique<adapter::PatientStore>(
        c10::make_intrusive<c10d::PrefixStore>(prefix + "/ranks", tcp->clone()), who, where);
  } catch (const std::exception& error) {
    throw PeerError(StrCat(who, " lost contact with ", where, ": ", adapter::ShortReason(error)));
  }
}

void Rendezvous::Announce(const std::string& interface) {
  const int rank = environment_.rank;
  if (Count(StrCat("times/", rank), 1, Remaining()) != 1) {
    throw UsageError(StrCat("a second process came as RANK=", rank, " to ",
                            environment_.master_address, ":", environment_.master_port,
                            ": give each process its own RANK and each run its own MASTER_PORT"));
  }
  const std::string here = StrCat(environment_.world, " ", adapter::ThisMachine(), " ",
                                  IsLoopback(interface) ? interface : "");
  // By value: the call may outlive this one.
  patient_->Call(Remaining(), [key = HereKey(rank), here](c10d::Store& store) {
    store.set(key, std::vector<uint8_t>(here.begin(), here.end()));
    return std::string();
  });
}

void Rendezvous::AwaitAll() {
  const auto is_here = [&](std::vector<std::string> keys) {
    return !patient_
                ->Call(Remaining(),
                       [keys = std::move(keys)](c10d::Store& store) {
                         return std::string(store.check(keys) ? "yes" : "");
                       })
                .empty();
  };
  std::vector<std::string> keys;
  for (int rank = 0; rank < environment_.world; ++rank) keys.push_back(HereKey(rank));
  while (!is_here(keys)) {
    if (Clock::now() > end_) {
      std::string missing;
      for (int rank = 0; rank < environment_.world; ++rank) {
        if (!is_here({HereKey(rank)})) missing += StrCat(missing.empty() ? "" : ", ", rank);
      }
      throw PeerError(StrCat("rank ", environment_.rank, " waited ", Seconds(deadline_), " s for ",
                             environment_.world, " ranks; missing: ", missing));
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

void Rendezvous::ReadAll() {
  int local_only = -1;  // a rank that cannot leave its machine
  std::string loopback;
  for (int rank = 0; rank < environment_.world; ++rank) {
    std::istringstream here(patient_->Call(Remaining(), [rank](c10d::Store& store) {
      const std::vector<uint8_t> bytes = store.get(HereKey(rank));
      return std::string(bytes.begin(), bytes.end());
    }));
    int world = 0;
    std::string machine, interface;
    here >> world >> machine >> interface;
    if (world != environment_.world) {
      throw UsageError(StrCat("rank ", rank, " was started with WORLD_SIZE=", world, ", rank ",
                              environment_.rank, " with ", environment_.world));
    }
    if (!interface.empty()) {
      local_only = rank;
      loopback = interface;
    }
    machine_of_rank_.push_back(machine);
  }
  for (int rank = 0; local_only >= 0 && rank < environment_.world; ++rank) {
    if (machine_of_rank_[static_cast<size_t>(rank)] ==
        machine_of_rank_[static_cast<size_t>(local_only)]) {
      continue;
    }
    throw UsageError(StrCat("rank ", local_only, " would use ", loopback,
                            ", which does not leave its machine, but rank ", rank,
                            " runs on another: set THINWIRE_INTERFACE, or MASTER_ADDR to an "
                            "address that all machines reach"));
  }
}

int64_t Rendezvous::Count(const std::string& key, int64_t increment, milliseconds patience) {
  return std::stoll(patient_->Call(patience, [key, increment](c10d::Store& store) {
    return std::to_string(store.add(key, increment));
  }));
}

milliseconds Rendezvous::Remaining() const {
  // At the very end of the deadline the store still gets the time to say who is missing.
  return std::max(milliseconds(500), std::chrono::duration_cast<milliseconds>(end_ - Clock::now()));
}

void Rendezvous::Leave(bool failed) noexcept {
  left_ = true;
  const milliseconds patience(failed ? 1000 : 5000);
  const auto end = Clock::now() + patience;
  const auto await = [&](const std::string& key) {
    while (Count(key, 0, patience) < environment_.world && Clock::now() < end) {
      std::this_thread::sleep_for(kPollInterval);
    }
  };
  try {
    Count("done", 1, patience);
    if (!failed) await("done");
    // Who has seen that all are done needs the store no more.
    Count("left", 1, patience);
    if (hosts_store_) await("left");
  } catch (const std::exception&) {
    // The store is gone: nobody is left to wait for.
  }
}

}  // namespace thinwire::launch
