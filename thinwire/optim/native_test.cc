#include "thinwire/optim/native.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"

namespace thinwire::optim {
namespace {

// A parameter of `size` elements with its gradient and state.
struct Parameter {
  std::vector<float> gradient, master;
  std::array<std::vector<float>, kMostStates> states;

  Parameter(const Optimizer& optimizer, size_t size, uint64_t key) : gradient(size), master(size) {
    for (size_t i = 0; i < size; ++i) {
      master[i] = static_cast<float>(CounterRandom(key).Normal(i));
      gradient[i] = static_cast<float>(CounterRandom(key + 1).Normal(i));
    }
    for (size_t s = 0; s < optimizer.states().size(); ++s) states[s].resize(size);
  }

  Stretch Part(size_t begin, size_t size, int group = 0, int64_t parameter = 0) {
    Stretch stretch{.group = group,
                    .parameter = parameter,
                    .offset = static_cast<int64_t>(begin),
                    .gradient = std::span(gradient).subspan(begin, size),
                    .master = std::span(master).subspan(begin, size)};
    for (size_t s = 0; s < kMostStates; ++s) {
      if (!states[s].empty()) stretch.states[s] = std::span(states[s]).subspan(begin, size);
    }
    return stretch;
  }
  Stretch All(int group = 0, int64_t parameter = 0) {
    return Part(0, master.size(), group, parameter);
  }
};

const char* const kNames[] = {"adamw", "adam", "sgd", "sgd_momentum", "lion", "lamb"};

GroupSettings SettingsOf(const std::string& name) {
  return {.lr = 0.01f,
          .weight_decay = 0.1f,
          .beta2 = 0.95f,
          .momentum = name == "sgd_momentum" ? 0.9f : 0.0f};
}

TEST(Optimizers, AreFoundByName) {
  const std::pair<const char*, size_t> states[] = {{"adamw", 2},        {"adam", 2}, {"sgd", 0},
                                                   {"sgd_momentum", 1}, {"lion", 1}, {"lamb", 2}};
  for (const auto& [name, count] : states) EXPECT_EQ(ByName(name)->states().size(), count) << name;
  try {
    ByName("adagrad");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "optimizer \"adagrad\" is not known: choose one of adamw, adam, sgd, "
                 "sgd_momentum, lion, lamb");
  }
}

// Each stretch is updated with the settings of its group, and a parameter may be cut anywhere.
TEST(Optimizers, CutsDoNotMatterAndGroupsDo) {
  for (const char* name : kNames) {
    const OptimizerPtr optimizer = ByName(name);
    const std::vector<GroupSettings> groups{SettingsOf(name), {.lr = 0}};
    std::vector<double> room(4);
    const StepContext step{
        .groups = groups, .room = room, .sum_over_ranks = [](std::span<double>) {}};
    Parameter whole(*optimizer, 333, 7), cut = whole, still(*optimizer, 50, 9);
    const std::vector<float> before = still.master;
    const Stretch at_once[] = {whole.All(0, 0), still.All(1, 1)};
    optimizer->Apply(step, at_once);
    EXPECT_EQ(still.master, before) << name;
    const Stretch in_parts[] = {cut.Part(0, 17), cut.Part(17, 300), cut.Part(317, 16)};
    optimizer->Apply(step, in_parts);
    if (optimizer->whole_parameters()) {  // the cuts change the order of a sum
      for (size_t i = 0; i < 333; ++i) EXPECT_FLOAT_EQ(whole.master[i], cut.master[i]) << name;
    } else {
      EXPECT_EQ(whole.master, cut.master) << name;
    }
    EXPECT_EQ(whole.states, cut.states) << name;
    EXPECT_NE(whole.master, Parameter(*optimizer, 333, 7).master) << name;
  }
}

// LAMB in fp64 over a parameter that two ranks share, by the formula.
TEST(Lamb, TakesTheNormsOfWholeParameters) {
  const OptimizerPtr lamb = MakeLamb();
  Parameter p(*lamb, 200, 3);
  const std::vector<float> w = p.master, g = p.gradient;
  const std::vector<GroupSettings> groups{{.lr = 0.05f, .weight_decay = 0.2f}};
  double weights = 0, directions = 0;
  std::vector<double> u(200);
  for (size_t i = 0; i < 200; ++i) {
    const double scaled = 0.5 * static_cast<double>(g[i]);
    u[i] = scaled / (std::abs(scaled) + 1e-8) + 0.2 * static_cast<double>(w[i]);
    weights += std::pow(static_cast<double>(w[i]), 2);
    directions += u[i] * u[i];
  }
  std::vector<double> room(2);
  int sums = 0;
  // This rank owns 70 elements, the other one the rest.
  const StepContext step{.grad_scale = 0.5f,
                         .groups = groups,
                         .room = room,
                         .sum_over_ranks = [&](std::span<double> values) {
                           ++sums;
                           values[0] = weights;
                           values[1] = directions;
                         }};
  const Stretch mine[] = {p.Part(0, 70)};
  lamb->Apply(step, mine);
  EXPECT_EQ(sums, 1);
  const double trust = std::sqrt(weights / directions);
  for (size_t i = 0; i < 200; ++i) {
    const double wanted = static_cast<double>(w[i]) - (i < 70 ? 0.05 * trust * u[i] : 0);
    EXPECT_NEAR(static_cast<double>(p.master[i]), wanted, 1e-6) << i;
  }
}

TEST(Lamb, TrustIsBoundedAndOneWithoutANorm) {
  const OptimizerPtr lamb = MakeLamb();
  const std::vector<GroupSettings> groups{{.lr = 1}};
  for (const auto& [weight, trust] :
       std::vector<std::pair<float, float>>{{0, 1}, {1e-6f, 0.01f}, {3, 3}, {1e6f, 10}}) {
    Parameter p(*lamb, 1, 0);
    p.master[0] = weight;
    p.gradient[0] = 4;  // a direction of 1 in the first step
    std::vector<double> room(2);
    const Stretch all[] = {p.All()};
    lamb->Apply({.groups = groups, .room = room, .sum_over_ranks = [](std::span<double>) {}}, all);
    EXPECT_NEAR(p.master[0], weight - trust, 1e-5f + weight * 1e-6f) << weight;
  }
}

TEST(Optimizers, RefuseSettingsByNameAndGroup) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::tuple<const char*, GroupSettings, const char*>> cases = {
      {"adamw", {.lr = nan}, "the optimizer's lr = nan of parameter group 3"},
      {"adamw", {.weight_decay = -1}, "weight_decay = -1"},
      {"adamw", {.eps = 0}, "eps = 0"},
      {"adam", {.beta1 = 1}, "beta1 = 1"},
      {"lamb", {.beta2 = -0.5f}, "beta2 = -0.5"},
      {"lion", {.beta2 = 1}, "beta2 = 1"},
      {"sgd", {.momentum = 0.9f}, "momentum = 0.9 of parameter group 3: it must be 0 in SGD that"},
      {"sgd_momentum", {.momentum = 1}, "momentum = 1"},
      {"sgd_momentum", {.momentum = 0.5f, .dampening = 2}, "dampening = 2"},
      {"sgd_momentum", {.momentum = 0.5f, .dampening = 0.1f, .nesterov = true}, "with nesterov"},
  };
  for (const auto& [name, settings, words] : cases) {
    try {
      ByName(name)->Check(settings, 3);
      ADD_FAILURE() << words;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
    EXPECT_NO_THROW(ByName(name)->Check(SettingsOf(name), 3));
  }
  EXPECT_NO_THROW(MakeLion()->Check({.eps = 0}, 0));  // it has none
}

TEST(GroupSettings, FingerprintTellsEveryFieldApart) {
  const std::vector<GroupSettings> groups{
      {},         {.lr = 1},       {.weight_decay = 1}, {.beta1 = 1},      {.beta2 = 1},
      {.eps = 1}, {.momentum = 1}, {.dampening = 1},    {.nesterov = true}};
  for (const GroupSettings& a : groups) {
    for (const GroupSettings& b : groups) {
      EXPECT_EQ(Fingerprint({&a, 1}) == Fingerprint({&b, 1}), a == b);
    }
  }
  EXPECT_NE(Fingerprint(std::span(groups).first(1)), Fingerprint(groups));
}

}  // namespace
}  // namespace thinwire::optim
