// Stages 1 and 2: the same engine with longer lives of weights and gradients. What they compute, in
// whole runs, is in engine_test.cc; what they send in engine_traffic_test.cc.
#include <gtest/gtest.h>

#include "thinwire/zero/fake_cluster.h"

namespace thinwire::zero {
namespace {

struct Trace {
  std::vector<std::vector<uint64_t>> seen;  // by rank, a hash of each flat at each use
  std::vector<uint64_t> owned;              // by rank, at the end
  bool operator==(const Trace&) const = default;
};

Trace Train(FakeCluster& cluster, const FakeTwist& twist = {}) {
  const size_t world = static_cast<size_t>(cluster.hosts * cluster.locals);
  Trace trace{std::vector<std::vector<uint64_t>>(world), std::vector<uint64_t>(world)};
  cluster.RunWell([&](FakeRank r) {
    const size_t rank = static_cast<size_t>(r.rank);
    FakeTwist own = twist;
    own.weights_seen = &trace.seen[rank];
    InitializeFake(r.engine);
    FakeTraining(r.engine, r.rank, 0, 3, own);
    trace.owned[rank] = HashOwned(r.engine);
  });
  return trace;
}

// With one micro-batch nothing that is computed depends on the stage, coded or not: each hop
// carries what it carried before, at another time.
TEST(EngineStage, ChangesNoBitWithOneMicroBatch) {
  for (const auto& [hosts, locals] :
       std::vector<std::pair<int, int>>{{1, 1}, {1, 4}, {2, 1}, {2, 2}, {3, 2}, {2, 3}, {4, 2}}) {
    for (const auto& [recipe, dtype] : std::vector<std::pair<std::string, DType>>{
             {"zero3", DType::kF32}, {"hpz", DType::kF32}, {"zero++", DType::kBF16}}) {
      FakeCluster cluster{.hosts = hosts, .locals = locals};
      cluster.options.recipe = recipe;
      cluster.options.wire = cluster.options.compute = dtype;
      const Trace expected = Train(cluster);
      EXPECT_NE(expected.seen[0][1], expected.seen[0][10]);  // weights did change
      for (const int stage : {1, 2}) {
        cluster.options.stage = stage;
        EXPECT_TRUE(Train(cluster) == expected)
            << recipe << " " << hosts << "x" << locals << " stage " << stage;
      }
    }
  }
}

TEST(EngineStage, TwoChangesNoBitWithSeveralMicroBatches) {
  for (const char* recipe : {"zero3", "zero++"}) {
    FakeCluster cluster{.hosts = 2, .locals = 3};
    cluster.options.recipe = recipe;
    cluster.options.micro_batches = 3;
    const Trace expected = Train(cluster);
    cluster.options.stage = 2;
    EXPECT_TRUE(Train(cluster) == expected) << recipe;
  }
}

// Rank 1 leaves a unit out of the first, the second or all of its micro-batches, or ends its
// backward early: its peers get what it has, or zeros.
TEST(EngineStage, SkippedUnitsReduceWhatThereIs) {
  const auto skipped = [](int rank, int64_t step, int unit) {
    return rank == 1 && ((step == 1 && unit == 2) || (step == 2 && unit < 3));
  };
  for (const int stage : {1, 2}) {
    for (const int micro : {1, 2}) {
      FakeCluster cluster;
      cluster.options.stage = stage;
      cluster.options.micro_batches = micro;
      const Plan plan = cluster.PlanOf(0);
      Reference reference(plan, 2, 2);
      reference.no_gradient = skipped;
      for (int64_t step = 0; step < 4; ++step) reference.Step(step);
      FakeTwist twist;
      twist.skips = [&](int rank, int64_t step, int unit, bool backward) {
        return backward && skipped(rank, step, unit);
      };
      cluster.RunWell([&](FakeRank r) {
        InitializeFake(r.engine);
        FakeTraining(r.engine, r.rank, 0, 4, twist);
        for (const OwnedStretch& owned : r.engine.Owned()) {
          const UnitLayout& unit = plan.units[static_cast<size_t>(owned.unit)];
          const int64_t at =
              unit.places[static_cast<size_t>(owned.parameter)].offset + owned.offset;
          const auto expected = std::span(reference.master()[static_cast<size_t>(owned.unit)])
                                    .subspan(static_cast<size_t>(at), owned.master.size());
          EXPECT_TRUE(std::ranges::equal(owned.master, expected))
              << stage << " " << micro << " " << unit.spec.name;
        }
      });
    }
  }
}

// Weights are where they were between steps, and new on all ranks after a step and after a refresh,
// frozen ones too.
TEST(EngineStage, WeightsStayUntilAStepOrARefresh) {
  for (const char* recipe : {"zero3", "zero++"}) {
    for (const int stage : {1, 2}) {
      FakeCluster cluster;
      cluster.options.recipe = recipe;
      cluster.options.stage = stage;
      cluster.options.micro_batches = 2;
      cluster.units[3].trainable = false;
      std::vector<std::vector<uint64_t>> all(4);
      cluster.RunWell([&](FakeRank r) {
        std::vector<std::vector<uint64_t>> seen(6);
        InitializeFake(r.engine);
        FakeEvaluation(r.engine, seen[0]);
        const Traffic before = r.engine.traffic();
        FakePass(r.engine, r.rank, 0, 0, false);
        FakeEvaluation(r.engine, seen[1]);
        FakePass(r.engine, r.rank, 0, 1, true);
        FakeEvaluation(r.engine, seen[2]);
        for (const Hop hop : {Hop::kSlowGather, Hop::kFastGather}) {
          EXPECT_EQ(r.engine.traffic().bytes[Index(hop)], before.bytes[Index(hop)]);
        }
        r.engine.Step({.lr = 0.1f});
        FakeEvaluation(r.engine, seen[3]);
        for (const OwnedStretch& owned : r.engine.Owned()) {
          for (float& w : owned.master) w += 1.0f;
        }
        r.engine.RefreshWeights(r.engine.progress());
        FakeEvaluation(r.engine, seen[4]);
        InitializeFake(r.engine);
        FakeEvaluation(r.engine, seen[5]);
        EXPECT_EQ(seen[1], seen[0]);
        EXPECT_EQ(seen[2], seen[0]);
        EXPECT_EQ(seen[5], seen[0]);
        for (size_t u = 0; u < 5; ++u) {
          EXPECT_EQ(seen[3][u] == seen[0][u], u == 3);
          EXPECT_NE(seen[4][u], seen[3][u]);
        }
        for (const auto& hashes : seen) {
          all[static_cast<size_t>(r.rank)].insert(all[static_cast<size_t>(r.rank)].end(),
                                                  hashes.begin(), hashes.end());
        }
      });
      for (const auto& hashes : all) EXPECT_EQ(hashes, all[0]);
    }
  }
}

TEST(EngineStage, RanksMustAgreeOnIt) {
  FakeCluster cluster;
  cluster.change = [](int rank, EngineOptions& options, std::vector<UnitSpec>&) {
    if (rank == 2) options.stage = 1;
  };
  for (const Outcome& outcome : cluster.Run([](FakeRank) {})) {
    EXPECT_NE(outcome.error.find("rank 2 wants stage 1, 2 hosts x 2 ranks"), std::string::npos)
        << outcome.error;
  }
}

// No unit has anything to pass on in codes, so there is no buffer for them.
TEST(EngineStages, UnitsOfNoElementsTrainWithRecipesThatPassCodesOn) {
  for (const std::vector<ParameterSpec>& parameters :
       {std::vector<ParameterSpec>{}, std::vector<ParameterSpec>{{"v", {0}}, {"w", {0, 3}}}}) {
    for (const int stage : {2, 3}) {
      for (const char* recipe : {"qwz", "zero++"}) {
        FakeCluster cluster;
        cluster.options.recipe = recipe;
        cluster.options.stage = stage;
        cluster.units = {{"empty", parameters}};
        cluster.RunWell([&](FakeRank r) {
          InitializeFake(r.engine);
          FakeTraining(r.engine, r.rank, 0, 3);
          EXPECT_EQ(r.engine.progress().steps, 3);
        });
      }
    }
  }
}

}  // namespace
}  // namespace thinwire::zero
