// Frozen units: gathered as all are, without gradients, optimizer state or a push per step.
#include <gtest/gtest.h>

#include "thinwire/zero/fake_cluster.h"

namespace thinwire::zero {
namespace {

// FakeUnits with some of them frozen: the first, one in the middle, or all.
std::vector<UnitSpec> Frozen(const std::vector<size_t>& which) {
  std::vector<UnitSpec> units = FakeUnits();
  for (const size_t u : which) units[u].trainable = false;
  return units;
}

TEST(EngineFrozen, TheRestIsTrainedAsInOneProcess) {
  for (const std::vector<size_t>& which : {std::vector<size_t>{0, 2}, {4}, {0, 1, 2, 3, 4}}) {
    for (const char* recipe : {"zero3", "hpz", "keep=codes, fast_gather=codes"}) {
      for (const int micro : {1, 2}) {
        FakeCluster cluster{.hosts = 3, .locals = 2};
        cluster.options.recipe = recipe;
        cluster.options.micro_batches = micro;
        cluster.options.max_grad_norm = 0.5f;
        cluster.units = Frozen(which);
        const Plan plan = cluster.PlanOf(0);
        Reference reference(plan, 3, 2);
        std::vector<double> norms;
        for (int64_t step = 0; step < 3; ++step) norms.push_back(reference.Step(step));
        cluster.RunWell([&](FakeRank r) {
          InitializeFake(r.engine);
          for (int64_t step = 0; step < 3; ++step) {
            for (int m = 0; m < micro; ++m) {
              FakePass(r.engine, r.rank, step, m, m + 1 == micro);
            }
            EXPECT_EQ(r.engine.Step({.lr = FakeLr(step)}).grad_norm,
                      norms[static_cast<size_t>(step)]);
          }
          for (const OwnedStretch& owned : r.engine.Owned()) {
            const UnitLayout& unit = r.engine.plan().units[static_cast<size_t>(owned.unit)];
            const auto& place = unit.places[static_cast<size_t>(owned.parameter)];
            const auto& flat = reference.master()[static_cast<size_t>(owned.unit)];
            for (size_t i = 0; i < owned.master.size(); ++i) {
              ASSERT_EQ(owned.master[i], flat[static_cast<size_t>(place.offset + owned.offset) + i])
                  << unit.spec.name;
            }
            EXPECT_EQ(owned.states[0].empty(), !unit.spec.trainable);
            EXPECT_EQ(owned.states[1].empty(), !unit.spec.trainable);
          }
        });
      }
    }
  }
}

// A load writes frozen weights, too; every rank sees them at once.
TEST(EngineFrozen, ARefreshShowsFrozenWeightsWrittenLater) {
  for (const char* recipe : {"zero3", "hpz", "zero++"}) {
    FakeCluster cluster;
    cluster.options.recipe = recipe;
    cluster.units = Frozen({1, 3});
    std::vector<std::vector<uint64_t>> seen(4);
    cluster.RunWell([&](FakeRank r) {
      InitializeFake(r.engine);
      FakeTraining(r.engine, r.rank, 0, 2);
      for (const OwnedStretch& owned : r.engine.Owned()) {
        for (float& w : owned.master) w += 1.0f;
      }
      r.engine.RefreshWeights(2);
      auto& hashes = seen[static_cast<size_t>(r.rank)];
      FakeTraining(r.engine, r.rank, 2, 3, {.weights_seen = &hashes});
      FakeTraining(r.engine, r.rank, 3, 4, {.weights_seen = &hashes});
    });
    ASSERT_EQ(seen[0].size(), 18u);
    for (const auto& hashes : seen) EXPECT_EQ(hashes, seen[0]);
    EXPECT_EQ(seen[0][1], seen[0][10]) << "a frozen unit";
    EXPECT_NE(seen[0][2], seen[0][11]) << "a trained one";
  }
}

TEST(EngineFrozen, ItsGradientsAreRefusedByName) {
  FakeCluster cluster{.hosts = 1, .locals = 1};
  cluster.units = Frozen({1});
  for (const Outcome& outcome : cluster.Run([](FakeRank r) {
         InitializeFake(r.engine);
         r.engine.BeginPass(PassKind::kTrain, true);
         r.engine.GradientBuffer(1);
       })) {
    EXPECT_NE(outcome.error.find("gradients of layer0, which is frozen"), std::string::npos)
        << outcome.error;
  }
}

TEST(EngineFrozen, RanksMustAgreeOnWhatIsFrozen) {
  FakeCluster cluster;
  cluster.change = [](int rank, EngineOptions&, std::vector<UnitSpec>& units) {
    if (rank == 2) units[3].trainable = false;
  };
  for (const Outcome& outcome : cluster.Run([](FakeRank) {})) {
    EXPECT_NE(outcome.error.find("rank 2 wants unit layer2 of 1031 elements in 1 frozen"),
              std::string::npos)
        << outcome.error;
  }
}

}  // namespace
}  // namespace thinwire::zero
