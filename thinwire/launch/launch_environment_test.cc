#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>

#include "thinwire/base/error.h"
#include "thinwire/launch/process_group.h"

namespace thinwire::launch {
namespace {

const char* const kNames[] = {"RANK",
                              "WORLD_SIZE",
                              "LOCAL_RANK",
                              "LOCAL_WORLD_SIZE",
                              "MASTER_ADDR",
                              "MASTER_PORT",
                              "THINWIRE_INTERFACE",
                              "GLOO_SOCKET_IFNAME",
                              "TORCHELASTIC_USE_AGENT_STORE",
                              "TORCHELASTIC_RESTART_COUNT"};

LaunchEnvironment From(const std::map<std::string, std::string>& variables) {
  for (const char* name : kNames) unsetenv(name);
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  return LaunchEnvironment::FromVariables();
}

// The launch of torchrun, with `changes` (an empty value: not set).
std::map<std::string, std::string> Launch(const std::map<std::string, std::string>& changes) {
  std::map<std::string, std::string> variables = {{"RANK", "3"},
                                                  {"WORLD_SIZE", "4"},
                                                  {"LOCAL_RANK", "1"},
                                                  {"LOCAL_WORLD_SIZE", "2"},
                                                  {"MASTER_ADDR", "node0"},
                                                  {"MASTER_PORT", "29500"}};
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

TEST(LaunchEnvironment, ReadsTheLaunchersVariables) {
  const LaunchEnvironment environment = From(Launch({{"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                     {"TORCHELASTIC_RESTART_COUNT", "2"},
                                                     {"GLOO_SOCKET_IFNAME", "eth1"}}));
  EXPECT_EQ(environment.rank, 3);
  EXPECT_EQ(environment.world, 4);
  EXPECT_EQ(environment.local_rank, 1);
  EXPECT_EQ(environment.local_world, 2);
  EXPECT_EQ(environment.master_address, "node0");
  EXPECT_EQ(environment.master_port, 29500);
  EXPECT_EQ(environment.interface, "eth1");
  EXPECT_TRUE(environment.agent_hosts_store);
  EXPECT_EQ(environment.attempt, 2);
}

TEST(LaunchEnvironment, WithoutRankAWorldOfOne) {
  const LaunchEnvironment environment = From({{"WORLD_SIZE", "4"}});
  EXPECT_EQ(environment.rank, 0);
  EXPECT_EQ(environment.world, 1);
}

TEST(LaunchEnvironment, OwnInterfaceVariableComesFirst) {
  EXPECT_EQ(From(Launch({{"GLOO_SOCKET_IFNAME", "a"}, {"THINWIRE_INTERFACE", "b"}})).interface,
            "b");
}

TEST(LaunchEnvironment, EveryBadVariableIsNamed) {
  const std::pair<std::string, std::string> bad[] = {
      {"RANK", "-1"},           {"RANK", "4"},
      {"RANK", "1x"},           {"WORLD_SIZE", ""},
      {"WORLD_SIZE", "0"},      {"WORLD_SIZE", "99999999999"},
      {"LOCAL_RANK", "x"},      {"MASTER_ADDR", ""},
      {"MASTER_PORT", ""},      {"MASTER_PORT", "0"},
      {"MASTER_PORT", "70000"}, {"THINWIRE_INTERFACE", "a,b"},
  };
  for (const auto& [name, value] : bad) {
    try {
      From(Launch({{name, value}}));
      ADD_FAILURE() << name << "=" << value << " was accepted";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace thinwire::launch
