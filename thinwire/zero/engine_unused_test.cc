// Parameters that got a gradient on no rank in a step are left alone by it; one that a single rank
// had a gradient for is updated on all.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "thinwire/base/checked.h"
#include "thinwire/zero/fake_cluster.h"

namespace thinwire::zero {
namespace {

// Whether l0.a and l0.norm (parameters 0 and 1 of unit 1) lack their gradients.
struct Lack {
  bool a = false, norm = false;
};

struct Values {
  std::vector<float> master;
  std::array<std::vector<float>, 2> states;
};

// What rank r owns of each parameter, by name, after a step and after the next, in which all have
// gradients again; by rank.
using Ranks = std::vector<std::array<std::map<std::string, Values>, 3>>;

std::map<std::string, Values> OwnedBy(Engine& engine) {
  std::map<std::string, Values> values;
  for (const OwnedStretch& owned : engine.Owned()) {
    const auto& spec = engine.plan().units[static_cast<size_t>(owned.unit)].spec;
    Values& mine = values[spec.parameters[static_cast<size_t>(owned.parameter)].name];
    mine.master.assign(owned.master.begin(), owned.master.end());
    for (size_t s = 0; s < 2; ++s) {
      mine.states[s].assign(owned.states[s].begin(), owned.states[s].end());
    }
  }
  return values;
}

Ranks Train(int stage, const std::function<Lack(int rank)>& lack_of) {
  FakeCluster cluster;
  cluster.options.stage = stage;
  Ranks ranks(4);
  FakeTwist twist;
  twist.missing = [&](int rank, int64_t step, int unit) {
    std::vector<int> missing;
    if (step != 1 || unit != 1) return missing;
    if (lack_of(rank).a) missing.push_back(0);
    if (lack_of(rank).norm) missing.push_back(1);
    return missing;
  };
  cluster.RunWell([&](FakeRank r) {
    InitializeFake(r.engine);
    for (int64_t step = 0; step < 3; ++step) {
      FakePass(r.engine, r.rank, step, 0, true, twist);
      r.engine.Step({.lr = 0.01f});
      ranks[static_cast<size_t>(r.rank)][static_cast<size_t>(step)] = OwnedBy(r.engine);
    }
  });
  return ranks;
}

// Which parameters step 1 changed, weights or moments.
std::vector<std::string> Moved(const Ranks& ranks, size_t from, size_t to) {
  std::set<std::string> moved;
  for (const auto& rank : ranks) {
    for (const auto& [name, before] : rank[from]) {
      const Values& after = rank[to].at(name);
      if (before.master != after.master || before.states != after.states) moved.insert(name);
    }
  }
  return {moved.begin(), moved.end()};
}

std::vector<std::string> AllBut(const std::set<std::string>& left) {
  std::set<std::string> names;
  for (const UnitSpec& unit : FakeUnits()) {
    for (const ParameterSpec& parameter : unit.parameters) {
      if (CheckedNumel(parameter.shape, "") > 0) names.insert(parameter.name);
    }
  }
  for (const std::string& name : left) names.erase(name);
  return {names.begin(), names.end()};
}

TEST(EngineUnused, WhatNoRankHasAGradientForStays) {
  for (const int stage : {1, 3}) {
    const Ranks ranks = Train(stage, [](int) { return Lack{.a = true}; });
    EXPECT_EQ(Moved(ranks, 0, 1), AllBut({"l0.a"}));
    EXPECT_EQ(Moved(ranks, 1, 2), AllBut({}));  // and goes on with the next gradient
  }
}

TEST(EngineUnused, RanksThatLackDifferentOnesAskOneAnother) {
  // Each lacks something, and l0.norm is what all of them lack.
  const Ranks ranks = Train(3, [](int rank) { return Lack{.a = rank != 2, .norm = true}; });
  EXPECT_EQ(Moved(ranks, 0, 1), AllBut({"l0.norm"}));
}

TEST(EngineUnused, OneGradientIsEnough) {
  const Ranks ranks = Train(3, [](int rank) { return Lack{.a = rank != 2, .norm = rank != 2}; });
  EXPECT_EQ(Moved(ranks, 0, 1), AllBut({}));
}

}  // namespace
}  // namespace thinwire::zero
