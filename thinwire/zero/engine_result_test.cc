// What the engine computes in situations that engine_test.cc, which compares whole runs in fp32
// with one process, leaves out.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "thinwire/zero/fake_cluster.h"

namespace thinwire::zero {
namespace {

// Compares the masters of this rank with the reference, bit by bit.
void ExpectMaster(Engine& engine, const Reference& reference) {
  for (const OwnedStretch& owned : engine.Owned()) {
    const UnitLayout& unit = engine.plan().units[static_cast<size_t>(owned.unit)];
    const auto& expected = reference.master()[static_cast<size_t>(owned.unit)];
    const int64_t at = unit.places[static_cast<size_t>(owned.parameter)].offset + owned.offset;
    for (size_t i = 0; i < owned.master.size(); ++i) {
      ASSERT_EQ(owned.master[i], expected[static_cast<size_t>(at) + i]) << unit.spec.name;
    }
  }
}

// Steps [0, steps) on a cluster and in one process give the same bits.
void ExpectEqualsReference(FakeCluster& cluster, int64_t steps, const FakeTwist& twist = {},
                           std::function<bool(int, int64_t, int)> no_gradient = {}) {
  const Plan plan = cluster.PlanOf(0);
  Reference reference(plan, cluster.hosts, cluster.locals);
  if (no_gradient) reference.no_gradient = no_gradient;
  for (int64_t step = 0; step < steps; ++step) reference.Step(step);
  cluster.RunWell([&](FakeRank r) {
    InitializeFake(r.engine);
    FakeTraining(r.engine, r.rank, 0, steps, twist);
    ExpectMaster(r.engine, reference);
  });
}

struct Mixed {
  std::string recipe;
  DType compute, wire;
  int micro_batches;
};

class EngineCodecs : public testing::TestWithParam<Mixed> {
 protected:
  FakeCluster Cluster() const {
    FakeCluster cluster;
    cluster.options.recipe = GetParam().recipe;
    cluster.options.compute = GetParam().compute;
    cluster.options.wire = GetParam().wire;
    cluster.options.micro_batches = GetParam().micro_batches;
    return cluster;
  }
};

TEST_P(EngineCodecs, AllRanksSeeTheSameBitsWhateverTheirInstructionSets) {
  FakeCluster cluster = Cluster();
  cluster.hosts = 3;
  const std::vector<Isa> isas = SupportedIsas();
  std::vector<std::vector<uint64_t>> seen(6);
  std::vector<uint64_t> owned(6), owned_before(6);
  for (const bool mixed : {false, true}) {
    cluster.context = [&](int rank) {
      return ExecContext{mixed ? isas[static_cast<size_t>(rank) % isas.size()] : isas.back()};
    };
    for (auto& hashes : seen) hashes.clear();
    cluster.RunWell([&](FakeRank r) {
      const size_t rank = static_cast<size_t>(r.rank);
      InitializeFake(r.engine);
      FakeTraining(r.engine, r.rank, 0, 4, {.weights_seen = &seen[rank]});
      owned[rank] = HashOwned(r.engine);
    });
    // Four units are gathered twice, the embedding once.
    ASSERT_EQ(seen[0].size(), static_cast<size_t>(4 * 9 * GetParam().micro_batches));
    for (const auto& hashes : seen) EXPECT_EQ(hashes, seen[0]);
    // The weights change from step to step, or this test would see nothing.
    EXPECT_NE(seen[0].front(), seen[0][seen[0].size() - 9]);
    if (mixed) {
      EXPECT_EQ(owned, owned_before);
    }
    owned_before = owned;
  }
}

// The first moments after one step are (1 - beta1) times the reduced gradient. Each rank's gradient
// is 0.3 w + noise. With roundoff u of the wider of compute and wire type, and s that of an
// absolute error below the normal range,
//   w      gathered                    |w| u + s
//   g      in compute dtype            0.3 (|w| u + s) + (|g| + ...) u + s
//   sum over locals and micro-batches  the same once more where a message carries g
//   sum over hosts                     |sum of the host| u + s
// so the error of the mean is below mean(0.3 |w| u (1+u)^3 + |g| ((1+u)^3 - 1)) + 4 s, and fp32
// rounding is far below the slack of 1 %.
TEST_P(EngineCodecs, GradientsAreWithinTheRoundingOfTheirFormats) {
  FakeCluster cluster = Cluster();
  cluster.options.max_grad_norm = 0;
  const auto roundoff = [](DType dtype) {
    return dtype == DType::kBF16 ? 0x1p-8 : dtype == DType::kF16 ? 0x1p-11 : 0x1p-24;
  };
  const double u = std::max(roundoff(GetParam().compute), roundoff(GetParam().wire));
  const double s = 0x1p-25;
  const int world = 4;
  double largest_error = 0;
  std::mutex mutex;
  cluster.RunWell([&](FakeRank r) {
    InitializeFake(r.engine);
    FakeTraining(r.engine, r.rank, 0, 1);
    double worst = 0;
    for (const OwnedStretch& owned : r.engine.Owned()) {
      const UnitLayout& unit = r.engine.plan().units[static_cast<size_t>(owned.unit)];
      const size_t p = static_cast<size_t>(owned.parameter);
      for (size_t i = 0; i < owned.states[0].size(); ++i) {
        const int64_t at = owned.offset + static_cast<int64_t>(i);
        const float w = InitialValue(unit.spec.parameters[p].name, at);
        double mean = 0, magnitude = 0;
        for (int rank = 0; rank < world; ++rank) {
          for (int micro = 0; micro < GetParam().micro_batches; ++micro) {
            const double g =
                FakeGradient(w, owned.unit, unit.places[p].offset + at, rank, 0, micro);
            mean += g / world / GetParam().micro_batches;
            magnitude += std::abs(g) / world / GetParam().micro_batches;
          }
        }
        const double growth = std::pow(1 + u, 3);
        const double bound =
            1.01 * (0.3 * std::abs(w) * u * growth + magnitude * (growth - 1) + 4 * s);
        const double error = std::abs(owned.states[0][i] / (1 - 0.9f) - mean);
        ASSERT_LE(error, bound + 1e-6 * magnitude) << unit.spec.name << " " << at;
        worst = std::max(worst, error / bound);
      }
    }
    const std::lock_guard lock(mutex);
    largest_error = std::max(largest_error, worst);
  });
  // The bound is tight enough to mean something.
  if (GetParam().wire != DType::kF32) {
    EXPECT_GE(largest_error, 0.1);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EngineCodecs,
                         testing::Values(Mixed{"zero3", DType::kBF16, DType::kBF16, 1},
                                         Mixed{"hpz", DType::kBF16, DType::kBF16, 1},
                                         Mixed{"zero3", DType::kF16, DType::kF16, 2},
                                         Mixed{"hpz", DType::kF16, DType::kF16, 2},
                                         Mixed{"zero3", DType::kF32, DType::kBF16, 3},
                                         Mixed{"hpz", DType::kF32, DType::kF16, 1},
                                         Mixed{"hpz", DType::kBF16, DType::kF32, 2}),
                         [](const auto& test) {
                           const Mixed& m = test.param;
                           return StrCat(m.recipe, "_", NameOf(m.compute), "_", NameOf(m.wire), "_",
                                         m.micro_batches);
                         });

TEST(EngineResult, TheLossScaleStartsWhereTheOptionsSay) {
  FakeCluster cluster;
  cluster.options.wire = cluster.options.compute = DType::kF16;
  cluster.options.loss_scale.initial = 4;
  cluster.RunWell([](FakeRank r) {
    r.engine.RefreshWeights(0);
    EXPECT_EQ(r.engine.loss_scale(), 4);
  });
}

// Rank 1 leaves layer1 out of step 2: its peers get zeros from it, and nothing else changes.
TEST(EngineResult, ASkippedUnitReducesZeros) {
  for (const char* recipe : {"zero3", "hpz"}) {
    for (const int micro : {1, 2}) {
      FakeCluster cluster;
      cluster.options.recipe = recipe;
      cluster.options.micro_batches = micro;
      const auto skipped = [](int rank, int64_t step, int unit) {
        return rank == 1 && step == 2 && unit == 2;
      };
      FakeTwist twist;
      twist.skips = [&](int rank, int64_t step, int unit, bool) {
        return skipped(rank, step, unit);
      };
      ExpectEqualsReference(cluster, 4, twist, skipped);
    }
  }
}

// Rank 1 ends its backward after two units, and in step 3 does nothing but begin and end.
TEST(EngineResult, ARankThatEndsAPassEarlyServesTheRest) {
  for (const char* recipe : {"zero3", "hpz"}) {
    FakeCluster cluster;
    cluster.options.recipe = recipe;
    const auto skipped = [](int rank, int64_t step, int unit) {
      return rank == 1 && ((step == 2 && unit < 3) || step == 3);
    };
    FakeTwist twist;
    twist.skips = [&](int rank, int64_t step, int unit, bool backward) {
      return skipped(rank, step, unit) && (backward || step == 3);
    };
    ExpectEqualsReference(cluster, 5, twist, skipped);
  }
}

TEST(EngineResult, ANonFiniteGradientOfOneRankSkipsTheStepEverywhere) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    for (const char* recipe : {"zero3", "hpz"}) {
      FakeCluster cluster;
      cluster.options.recipe = recipe;
      cluster.options.micro_batches = 2;
      std::vector<std::vector<uint64_t>> with(4), without(4);
      std::vector<uint64_t> owned_with(4), owned_without(4);
      cluster.RunWell([&](FakeRank r) {
        const size_t rank = static_cast<size_t>(r.rank);
        InitializeFake(r.engine);
        FakeTraining(r.engine, r.rank, 0, 2);
        const uint64_t before = HashOwned(r.engine);
        FakeTwist twist;
        twist.poison = [&](int from, int64_t, int unit) {
          return from == 2 && unit == 1 ? bad : 0.0f;
        };
        for (int micro = 0; micro < 2; ++micro) {
          FakePass(r.engine, r.rank, 77, micro, micro == 1, twist);
        }
        const StepResult result = r.engine.Step({.lr = 1});
        EXPECT_FALSE(result.applied);
        EXPECT_FALSE(std::isfinite(result.grad_norm));
        EXPECT_EQ(result.step, 2);
        EXPECT_EQ(HashOwned(r.engine), before);
        // As if that step had never been.
        FakeTraining(r.engine, r.rank, 2, 4, {.weights_seen = &with[rank]});
        owned_with[rank] = HashOwned(r.engine);
      });
      cluster.RunWell([&](FakeRank r) {
        const size_t rank = static_cast<size_t>(r.rank);
        InitializeFake(r.engine);
        FakeTraining(r.engine, r.rank, 0, 2);
        FakeTraining(r.engine, r.rank, 2, 4, {.weights_seen = &without[rank]});
        owned_without[rank] = HashOwned(r.engine);
      });
      EXPECT_EQ(with, without) << bad;
      EXPECT_EQ(owned_with, owned_without) << bad;
    }
  }
}

TEST(EngineResult, EvaluationBetweenAndInsideOfStepsChangesNothing) {
  for (const char* recipe : {"zero3", "hpz"}) {
    FakeCluster cluster;
    cluster.options.recipe = recipe;
    cluster.options.micro_batches = 2;
    const Plan plan = cluster.PlanOf(0);
    Reference reference(plan, 2, 2);
    for (int64_t step = 0; step < 4; ++step) reference.Step(step);
    cluster.RunWell([&](FakeRank r) {
      InitializeFake(r.engine);
      std::vector<uint64_t> seen, evaluated;
      FakeEvaluation(r.engine, evaluated);
      for (int64_t step = 0; step < 4; ++step) {
        seen.clear();
        FakePass(r.engine, r.rank, step, 0, false, {.weights_seen = &seen});
        // The same weights as the forward saw.
        seen.resize(5);
        EXPECT_EQ(seen, evaluated);
        evaluated.clear();
        FakeEvaluation(r.engine, evaluated);
        EXPECT_EQ(seen, evaluated);
        FakePass(r.engine, r.rank, step, 1, true);
        evaluated.clear();
        FakeEvaluation(r.engine, evaluated);
        EXPECT_EQ(seen, evaluated);
        r.engine.Step({.lr = FakeLr(step)});
        evaluated.clear();
        FakeEvaluation(r.engine, evaluated);
        EXPECT_NE(seen, evaluated);
      }
      ExpectMaster(r.engine, reference);
    });
  }
}

TEST(EngineResult, TwoEnginesAtTheSameTime) {
  FakeCluster outer, inner;
  inner.options.recipe = "hpz";
  inner.hosts = 4;
  inner.locals = 1;
  inner.units.pop_back();
  const Plan outer_plan = outer.PlanOf(0), inner_plan = inner.PlanOf(0);
  Reference outer_reference(outer_plan, 2, 2), inner_reference(inner_plan, 4, 1);
  for (int64_t step = 0; step < 3; ++step) {
    outer_reference.Step(step);
    inner_reference.Step(step);
  }
  transport::ThreadFabric bulk(4), control(4);
  transport::InProcessBoard board(4);
  outer.RunWell([&](FakeRank r) {
    Engine second(inner.PlanOf(r.rank), {bulk.transport(r.rank), control.transport(r.rank), board});
    InitializeFake(r.engine);
    InitializeFake(second);
    for (int64_t step = 0; step < 3; ++step) {
      FakePass(r.engine, r.rank, step, 0, true);
      FakePass(second, r.rank, step, 0, true);
      r.engine.Step({.lr = FakeLr(step)});
      second.Step({.lr = FakeLr(step)});
    }
    ExpectMaster(r.engine, outer_reference);
    ExpectMaster(second, inner_reference);
  });
}

TEST(EngineResult, UnitsAndParametersWithoutElements) {
  for (const char* recipe : {"zero3", "hpz"}) {
    FakeCluster cluster;
    cluster.options.recipe = recipe;
    cluster.units = {
        {"nothing", {}},         {"zero", {{"z", {0, 3}}, {"z1", {0}}}},  {"one", {{"o", {1, 1}}}},
        {"scalar", {{"s", {}}}}, {"some", {{"w", {40, 40}}, {"b", {3}}}}, {"last", {}}};
    ExpectEqualsReference(cluster, 3);
  }
  FakeCluster empty;
  empty.units = {};
  empty.RunWell([](FakeRank r) {
    InitializeFake(r.engine);
    FakeTraining(r.engine, r.rank, 0, 3);
    EXPECT_EQ(r.engine.traffic().slow_bytes(), 0);
  });
}

TEST(EngineResult, OneRankSendsNothing) {
  for (const char* recipe : {"zero3", "hpz"}) {
    FakeCluster cluster{.hosts = 1, .locals = 1};
    cluster.options.recipe = recipe;
    ExpectEqualsReference(cluster, 3);
    cluster.RunWell([](FakeRank r) {
      InitializeFake(r.engine);
      FakeTraining(r.engine, r.rank, 0, 2);
      EXPECT_EQ(r.bulk.sent().messages, 0);
      EXPECT_EQ(r.engine.traffic().control_bytes, 0);
    });
  }
}

TEST(EngineResult, FourMicroBatches) {
  for (const char* recipe : {"zero3", "hpz"}) {
    FakeCluster cluster{.hosts = 3, .locals = 2};
    cluster.options.recipe = recipe;
    cluster.options.micro_batches = 4;
    ExpectEqualsReference(cluster, 3);
  }
}

TEST(EngineResult, ClippingOffOrWideLeavesTheBitsAlone) {
  std::vector<std::vector<uint64_t>> results;
  std::vector<double> norms;
  for (const float limit : {0.0f, 1e9f, 0.01f}) {
    FakeCluster cluster;
    cluster.options.max_grad_norm = limit;
    auto& hashes = results.emplace_back(4);
    cluster.RunWell([&](FakeRank r) {
      InitializeFake(r.engine);
      FakeTraining(r.engine, r.rank, 0, 3);
      hashes[static_cast<size_t>(r.rank)] = HashOwned(r.engine);
    });
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_NE(results[0], results[2]);
  FakeCluster off;
  off.options.max_grad_norm = 0;
  ExpectEqualsReference(off, 3);
}

// Hosts whose ranks are not contiguous: each rank plays the one at its place of a contiguous run.
TEST(EngineResult, RanksOfAHostAnywhere) {
  for (const char* recipe : {"zero3", "hpz"}) {
    FakeCluster cluster{.hosts = 3, .locals = 2};
    cluster.options.recipe = recipe;
    cluster.options.max_grad_norm = 0;  // norms are summed by rank
    const Plan plan = cluster.PlanOf(0);
    Reference reference(plan, 3, 2);
    for (int64_t step = 0; step < 3; ++step) reference.Step(step);
    cluster.machines = {"x", "y", "z", "y", "x", "z"};
    cluster.RunWell([&](FakeRank r) {
      const comm::Topology& topology = r.engine.plan().topology;
      InitializeFake(r.engine);
      FakeTraining(r.engine, topology.host() * 2 + topology.local(), 0, 3);
      ExpectMaster(r.engine, reference);
    });
  }
}

TEST(EngineResult, LossAndStopAreSharedByAll) {
  FakeCluster cluster;
  cluster.RunWell([](FakeRank r) {
    InitializeFake(r.engine);
    for (int64_t step = 0; step < 3; ++step) {
      FakePass(r.engine, r.rank, step, 0, true);
      const StepResult result =
          r.engine.Step({.lr = 0.1f, .loss = 1.0 + r.rank, .stop = step == 1 && r.rank == 3});
      EXPECT_EQ(result.loss, 2.5);
      EXPECT_EQ(result.stop, step == 1);
      EXPECT_TRUE(result.applied);
    }
    EXPECT_EQ(r.engine.MeanOverRanks(r.rank), 1.5);
  });
}

// Weights that were written after some steps, as a load does, are what all ranks see next.
TEST(EngineResult, RefreshShowsWeightsWrittenLater) {
  for (const char* recipe : {"zero3", "hpz"}) {
    FakeCluster cluster;
    cluster.options.recipe = recipe;
    std::vector<std::vector<uint64_t>> before(4), after(4);
    cluster.RunWell([&](FakeRank r) {
      const size_t rank = static_cast<size_t>(r.rank);
      InitializeFake(r.engine);
      FakeEvaluation(r.engine, before[rank]);
      FakeTraining(r.engine, r.rank, 0, 2);
      InitializeFake(r.engine);
      FakeEvaluation(r.engine, after[rank]);
      FakePass(r.engine, r.rank, 0, 0, true);
      EXPECT_EQ(r.engine.Step({}).step, 1);
    });
    EXPECT_EQ(before, after);
    EXPECT_EQ(before[3], before[0]);
  }
}

}  // namespace
}  // namespace thinwire::zero
