#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "thinwire/base/error.h"
#include "thinwire/launch/process_group.h"

namespace thinwire::launch {
namespace {

const char* Variable(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

std::optional<int> Integer(const char* name, int low, int high) {
  const char* text = Variable(name);
  if (text == nullptr) return std::nullopt;
  const char* end = text + std::strlen(text);
  int value = 0;
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < low || value > high) {
    throw UsageError(
        StrCat("variable ", name, "=", text, ": expected a number from ", low, " to ", high));
  }
  return value;
}

template <typename T>
T Required(const std::optional<T>& value, const char* name) {
  if (!value) {
    throw UsageError(StrCat("variable ", name,
                            " is missing although RANK is set: start the run with torchrun, or set "
                            "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"));
  }
  return *value;
}

std::string InterfaceFromVariables() {
  for (const char* name : {"THINWIRE_INTERFACE", "GLOO_SOCKET_IFNAME"}) {
    const char* text = Variable(name);
    if (text == nullptr) continue;
    if (std::strchr(text, ',') != nullptr) {
      throw UsageError(StrCat("variable ", name, "=", text,
                              ": expected one interface; set THINWIRE_INTERFACE to one of them"));
    }
    return text;
  }
  return "";
}

}  // namespace

LaunchEnvironment LaunchEnvironment::FromVariables() {
  // More ranks than any cluster this can serve: a full mesh of sockets.
  constexpr int kMaxWorld = 1 << 16;
  LaunchEnvironment environment;
  environment.interface = InterfaceFromVariables();
  const std::optional<int> rank = Integer("RANK", 0, kMaxWorld - 1);
  if (!rank) {
    environment.local_world = 1;
    return environment;
  }
  environment.rank = *rank;
  environment.world = Required(Integer("WORLD_SIZE", 1, kMaxWorld), "WORLD_SIZE");
  if (environment.rank >= environment.world) {
    throw UsageError(StrCat("variable RANK=", environment.rank,
                            ": expected less than WORLD_SIZE=", environment.world));
  }
  environment.local_rank = Integer("LOCAL_RANK", 0, environment.world - 1).value_or(0);
  environment.local_world = Integer("LOCAL_WORLD_SIZE", 1, environment.world).value_or(0);
  environment.attempt = Integer("TORCHELASTIC_RESTART_COUNT", 0, INT32_MAX).value_or(0);
  const char* agent = Variable("TORCHELASTIC_USE_AGENT_STORE");
  environment.agent_hosts_store = agent != nullptr && std::strcmp(agent, "True") == 0;
  if (environment.world > 1) {
    const char* address = Variable("MASTER_ADDR");
    environment.master_address = Required(
        address != nullptr ? std::optional<std::string>(address) : std::nullopt, "MASTER_ADDR");
    environment.master_port = Required(Integer("MASTER_PORT", 1, 65535), "MASTER_PORT");
  }
  return environment;
}

}  // namespace thinwire::launch
