// Which network interface reaches a peer, and whether it can serve peers on other machines.
#pragma once

#include <string>

namespace thinwire::launch {

// The interface over which this machine reaches `address` (a name or a number). When that is an
// address of its own: the interface that has it. Throws UsageError when the name is unknown or
// nothing routes to it.
std::string InterfaceTowards(const std::string& address);

// Throws UsageError unless `name` is an interface that is up and has an address; lists those.
void CheckInterface(const std::string& name);

bool IsLoopback(const std::string& interface);

}  // namespace thinwire::launch
