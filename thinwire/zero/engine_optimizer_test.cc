// Any optimizer, any groups: what N x L ranks make of a step against the same optimizer on whole
// flats in one process.
#include <gtest/gtest.h>

#include "thinwire/optim/native.h"
#include "thinwire/zero/fake_cluster.h"

namespace thinwire::zero {
namespace {

// Every parameter on its own. Gradients are summed in fp64: the order of the engine's sums is not
// the point here.
class Whole {
 public:
  Whole(const Plan& plan, int world) : plan_(plan), world_(world) {
    int64_t index = 0;
    for (size_t u = 0; u < plan.units.size(); ++u) {
      const UnitLayout& unit = plan.units[u];
      for (size_t p = 0; p < unit.places.size(); ++p) {
        Parameter& added = parameters_.emplace_back();
        added.unit = static_cast<int>(u);
        added.index = index++;
        added.place = unit.places[p];
        const size_t numel = static_cast<size_t>(added.place.numel);
        for (size_t i = 0; i < numel; ++i) {
          added.master.push_back(
              InitialValue(unit.spec.parameters[p].name, static_cast<int64_t>(i)));
        }
        added.gradient.resize(numel);
        for (size_t s = 0; s < Optimizer().states().size(); ++s) added.states[s].resize(numel);
      }
    }
  }

  int without_gradient = -1;  // a unit

  void Step(int64_t step, std::span<const optim::GroupSettings> groups) {
    std::vector<optim::Stretch> stretches;
    for (Parameter& p : parameters_) {
      if (p.unit == without_gradient) continue;
      for (size_t i = 0; i < p.master.size(); ++i) {
        double sum = 0;
        for (int rank = 0; rank < world_; ++rank) {
          sum += FakeGradient(p.master[i], p.unit, p.place.offset + static_cast<int64_t>(i), rank,
                              step, 0);
        }
        p.gradient[i] = static_cast<float>(sum / world_);
      }
      optim::Stretch stretch{
          .group = p.place.group, .parameter = p.index, .gradient = p.gradient, .master = p.master};
      for (size_t s = 0; s < p.states.size(); ++s) stretch.states[s] = p.states[s];
      stretches.push_back(stretch);
    }
    std::vector<double> room(2 * parameters_.size());
    Optimizer().Apply({.step = step + 1,
                       .groups = groups,
                       .room = room,
                       .sum_over_ranks = [](std::span<double>) {}},
                      stretches);
  }

  void ExpectNear(Engine& engine) const {
    for (const OwnedStretch& owned : engine.Owned()) {
      size_t index = static_cast<size_t>(owned.parameter);
      for (int u = 0; u < owned.unit; ++u)
        index += plan_.units[static_cast<size_t>(u)].places.size();
      const Parameter& p = parameters_[index];
      for (size_t i = 0; i < owned.master.size(); ++i) {
        const size_t at = static_cast<size_t>(owned.offset) + i;
        ASSERT_NEAR(owned.master[i], p.master[at], 2e-5f) << owned.unit << " " << owned.parameter;
        for (size_t s = 0; s < p.states.size(); ++s) {
          ASSERT_EQ(owned.states[s].empty(), p.states[s].empty());
          if (owned.states[s].empty()) continue;
          ASSERT_NEAR(owned.states[s][i], p.states[s][at], 2e-6f) << owned.unit;
        }
      }
    }
  }

 private:
  struct Parameter {
    int unit = 0;
    int64_t index = 0;
    ParameterPlace place;
    std::vector<float> gradient, master;
    std::array<std::vector<float>, optim::kMostStates> states;
  };

  const optim::Optimizer& Optimizer() const { return *plan_.options.optimizer; }

  const Plan& plan_;
  int world_;
  std::vector<Parameter> parameters_;
};

class EngineOptimizer : public testing::TestWithParam<const char*> {};

TEST_P(EngineOptimizer, UpdatesShardsAsWholeParameters) {
  const bool momentum = std::string(GetParam()) == "sgd_momentum";
  for (const char* recipe : {"zero3", "hpz"}) {
    FakeCluster cluster{.hosts = 3, .locals = 2};
    cluster.options.recipe = recipe;
    cluster.options.max_grad_norm = 0;
    cluster.options.optimizer = optim::ByName(GetParam());
    cluster.options.groups.assign(3, {});
    // A group of its own inside a unit, between others.
    cluster.units[1].parameters[2].group = 2;
    cluster.units[3].parameters[0].group = 2;
    const auto groups_of = [&](int64_t step) {
      std::vector<optim::GroupSettings> groups(3);
      for (size_t g = 0; g < 3; ++g) {
        groups[g].lr = FakeLr(step) / static_cast<float>(1 + g);
        groups[g].weight_decay = 0.1f * static_cast<float>(g);
        groups[g].beta1 = 0.8f + 0.05f * static_cast<float>(g);
        groups[g].momentum = momentum ? 0.5f + 0.1f * static_cast<float>(g) : 0.0f;
        groups[g].nesterov = momentum && g == 1;
      }
      return groups;
    };
    const Plan plan = cluster.PlanOf(0);
    Whole whole(plan, 6);
    for (int64_t step = 0; step < 3; ++step) whole.Step(step, groups_of(step));
    cluster.RunWell([&](FakeRank r) {
      InitializeFake(r.engine);
      for (int64_t step = 0; step < 3; ++step) {
        FakePass(r.engine, r.rank, step, 0, true);
        r.engine.Step({.groups = groups_of(step)});
      }
      whole.ExpectNear(r.engine);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, EngineOptimizer,
                         testing::Values("adamw", "adam", "sgd", "sgd_momentum", "lion", "lamb"),
                         [](const auto& test) { return std::string(test.param); });

// A unit that no pass reduces has a gradient of zero in every step, also where the optimizer left
// something in its place.
// As torch does where grad is None: decay and momentum would move it.
TEST(EngineOptimizers, AUnitWithoutGradientsIsLeftAlone) {
  for (const char* name : {"sgd", "lamb"}) {
    FakeCluster cluster;
    cluster.options.max_grad_norm = 0;
    cluster.options.optimizer = optim::ByName(name);
    cluster.options.groups.assign(2, {.weight_decay = 0.5f});
    const Plan plan = cluster.PlanOf(0);
    Whole whole(plan, 4);
    whole.without_gradient = 2;
    const std::vector<optim::GroupSettings> groups(2, {.lr = 0.01f, .weight_decay = 0.5f});
    for (int64_t step = 0; step < 3; ++step) whole.Step(step, groups);
    FakeTwist twist;
    twist.skips = [](int, int64_t, int unit, bool backward) { return backward && unit == 2; };
    cluster.RunWell([&](FakeRank r) {
      InitializeFake(r.engine);
      for (int64_t step = 0; step < 3; ++step) {
        FakePass(r.engine, r.rank, step, 0, true, twist);
        r.engine.Step({.lr = 0.01f});
      }
      whole.ExpectNear(r.engine);
    });
  }
}

TEST(EngineGroups, TheirSettingsMustBeAlikeAndMakeSense) {
  const auto outcomes_of = [](const std::function<void(FakeRank)>& body) {
    FakeCluster cluster;
    return cluster.Run([&](FakeRank r) {
      InitializeFake(r.engine);
      FakePass(r.engine, r.rank, 0, 0, true);
      body(r);
    });
  };
  for (const Outcome& each : outcomes_of([](FakeRank r) {
         std::vector<optim::GroupSettings> groups(2);
         groups[1].lr = r.rank == 1 ? 0.5f : 0.25f;
         r.engine.Step({.groups = groups});
       })) {
    EXPECT_NE(each.error.find("the ranks disagree"), std::string::npos) << each.error;
  }
  for (const Outcome& each : outcomes_of([](FakeRank r) {
         const std::vector<optim::GroupSettings> groups(3);
         r.engine.Step({.groups = groups});
       })) {
    EXPECT_NE(each.error.find("settings of 3 parameter groups where the engine has 2"),
              std::string::npos)
        << each.error;
  }
  for (const Outcome& each :
       outcomes_of([](FakeRank r) { r.engine.Step({.lr = std::nanf("")}); })) {
    EXPECT_NE(each.error.find("lr = nan of parameter group 0"), std::string::npos) << each.error;
  }
}

// An optimizer from outside that keeps its state itself: here plain descent with a counter.
class Outside final : public optim::Optimizer {
 public:
  explicit Outside(std::vector<int64_t>& calls) : calls_(calls) {}
  std::string_view name() const override { return "Outside"; }
  std::vector<std::string_view> states() const override { return {}; }
  bool whole_parameters() const override { return true; }
  void Check(const optim::GroupSettings&, int) const override {}
  void Apply(const optim::StepContext& step,
             std::span<const optim::Stretch> stretches) const override {
    calls_.push_back(std::ssize(stretches));
    for (const optim::Stretch& s : stretches) {
      for (size_t i = 0; i < s.master.size(); ++i) {
        s.master[i] -= 0.01f * step.grad_scale * s.gradient[i];
      }
    }
  }

 private:
  std::vector<int64_t>& calls_;
};

TEST(EngineOptimizers, OneFromOutsideGetsAllStretchesAtOnce) {
  for (const char* recipe : {"zero3", "hpz"}) {
    std::vector<uint64_t> hashes[2];
    for (const bool outside : {false, true}) {
      FakeCluster cluster;
      cluster.options.recipe = recipe;
      cluster.options.groups.assign(2, {});
      cluster.options.max_grad_norm = 0;
      std::vector<std::vector<int64_t>> calls(4);
      cluster.options.optimizer = optim::MakeSgd(false);
      cluster.change = [&](int rank, EngineOptions& options, std::vector<UnitSpec>&) {
        if (!outside) return;
        options.optimizer = std::make_shared<Outside>(calls[static_cast<size_t>(rank)]);
      };
      hashes[outside].resize(4);
      cluster.RunWell([&](FakeRank r) {
        InitializeFake(r.engine);
        for (int64_t step = 0; step < 3; ++step) {
          FakePass(r.engine, r.rank, step, 0, true);
          r.engine.Step({.lr = 0.01f});
        }
        const size_t rank = static_cast<size_t>(r.rank);
        hashes[outside][rank] = HashOwned(r.engine);
        if (outside) {
          EXPECT_EQ(calls[rank], std::vector<int64_t>(3, std::ssize(r.engine.Owned())));
        }
      });
    }
    EXPECT_EQ(hashes[0], hashes[1]);
  }
}

}  // namespace
}  // namespace thinwire::zero
