#include "thinwire/launch/interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "thinwire/base/error.h"

namespace thinwire::launch {
namespace {

struct FreeAddresses {
  void operator()(ifaddrs* list) const { freeifaddrs(list); }
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

// The addresses of all interfaces, as a list linked by ifa_next.
std::unique_ptr<ifaddrs, FreeAddresses> Interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    throw UsageError(StrCat("cannot list the network interfaces: ", std::strerror(errno)));
  }
  return std::unique_ptr<ifaddrs, FreeAddresses>(list);
}

bool Usable(const ifaddrs& entry) {
  return entry.ifa_addr != nullptr && (entry.ifa_flags & IFF_UP) != 0 &&
         (entry.ifa_addr->sa_family == AF_INET || entry.ifa_addr->sa_family == AF_INET6);
}

bool SameAddress(const sockaddr* a, const sockaddr* b) {
  if (a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET) {
    sockaddr_in x, y;
    std::memcpy(&x, a, sizeof(x));
    std::memcpy(&y, b, sizeof(y));
    return x.sin_addr.s_addr == y.sin_addr.s_addr;
  }
  sockaddr_in6 x, y;
  std::memcpy(&x, a, sizeof(x));
  std::memcpy(&y, b, sizeof(y));
  return std::memcmp(&x.sin6_addr, &y.sin6_addr, sizeof(x.sin6_addr)) == 0;
}

// The local address that the kernel would use towards `remote`. Connecting a datagram socket only
// asks the routing table: nothing is sent.
std::optional<sockaddr_storage> SourceAddress(const addrinfo& remote) {
  const int fd = socket(remote.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  sockaddr_storage local{};
  socklen_t length = sizeof(local);
  const bool found = connect(fd, remote.ai_addr, remote.ai_addrlen) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length) == 0;
  close(fd);
  return found ? std::optional(local) : std::nullopt;
}

}  // namespace

std::string InterfaceTowards(const std::string& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  // The port is of no interest, but a datagram socket does not connect to port 0 everywhere.
  const int error = getaddrinfo(address.c_str(), "9", &hints, &found);
  if (error != 0) {
    throw UsageError(StrCat("MASTER_ADDR=", address, ": ", gai_strerror(error),
                            "; set it to an address of the machine of rank 0"));
  }
  const std::unique_ptr<addrinfo, FreeAddresses> remotes(found);
  const auto interfaces = Interfaces();
  for (const addrinfo* remote = remotes.get(); remote != nullptr; remote = remote->ai_next) {
    const auto source = SourceAddress(*remote);
    if (!source) continue;
    for (const ifaddrs* entry = interfaces.get(); entry != nullptr; entry = entry->ifa_next) {
      if (Usable(*entry) &&
          SameAddress(entry->ifa_addr, reinterpret_cast<const sockaddr*>(&*source))) {
        return entry->ifa_name;
      }
    }
  }
  throw UsageError(StrCat("no network interface reaches MASTER_ADDR=", address,
                          ": set THINWIRE_INTERFACE to the one that does"));
}

void CheckInterface(const std::string& name) {
  std::string names;
  const auto interfaces = Interfaces();
  for (const ifaddrs* entry = interfaces.get(); entry != nullptr; entry = entry->ifa_next) {
    if (!Usable(*entry)) continue;
    const std::string candidate = entry->ifa_name;
    if (candidate == name) return;
    if ((names + ",").find(" " + candidate + ",") != std::string::npos) continue;
    names += (names.empty() ? " " : ", ") + candidate;
  }
  throw UsageError(StrCat("network interface ", name,
                          " is not there, not up or without an address: set THINWIRE_INTERFACE to "
                          "one of:",
                          names));
}

bool IsLoopback(const std::string& interface) {
  const auto interfaces = Interfaces();
  for (const ifaddrs* entry = interfaces.get(); entry != nullptr; entry = entry->ifa_next) {
    if (interface == entry->ifa_name) return (entry->ifa_flags & IFF_LOOPBACK) != 0;
  }
  return false;
}

}  // namespace thinwire::launch
