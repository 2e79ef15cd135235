// Micro-batches whose number the caller decides, or whose losses it weights itself, and gradients
// that are looked at before the step.
#include <gtest/gtest.h>

#include "thinwire/zero/fake_cluster.h"

namespace thinwire::zero {
namespace {

// Each step equals one of an engine that was made for so many micro-batches.
TEST(EngineMicroBatches, AreAsManyAsTheCallerSays) {
  const int counts[] = {1, 3, 2, 1};
  for (const char* recipe : {"zero3", "hpz"}) {
    FakeCluster cluster{.hosts = 3, .locals = 2};
    cluster.options.recipe = recipe;
    cluster.options.micro_batches = 0;
    Plan plan = cluster.PlanOf(0);
    Reference reference(plan, 3, 2);
    std::vector<double> norms;
    for (int64_t step = 0; step < 4; ++step) {
      plan.options.micro_batches = counts[step];
      norms.push_back(reference.Step(step));
    }
    cluster.RunWell([&](FakeRank r) {
      InitializeFake(r.engine);
      for (int64_t step = 0; step < 4; ++step) {
        for (int micro = 0; micro < counts[step]; ++micro) {
          FakePass(r.engine, r.rank, step, micro, micro + 1 == counts[step]);
          // Evaluation does not count.
          r.engine.BeginPass(PassKind::kEvaluate, true);
          r.engine.EndPass();
        }
        EXPECT_EQ(r.engine.Step({.lr = FakeLr(step)}).grad_norm, norms[static_cast<size_t>(step)]);
      }
    });
  }
}

TEST(EngineMicroBatches, GradientsCanBeReadBeforeTheStep) {
  for (const char* recipe : {"zero3", "hpz"}) {
    for (const int micro_batches : {0, 1, 2}) {
      for (const bool average : {true, false}) {
        FakeCluster cluster;
        cluster.options.recipe = recipe;
        cluster.options.wire = cluster.options.compute = DType::kF16;  // which scales the loss
        cluster.options.micro_batches = micro_batches;
        cluster.options.average_micro_batches = average;
        const int passes = micro_batches == 0 ? 4 : micro_batches;
        // Powers of two, so that all sums are exact.
        const float mean = average ? 0.25f : 0.25f * static_cast<float>(passes);
        FakeTwist twist{.gradient = 0.25f};
        twist.skips = [](int, int64_t step, int unit, bool backward) {
          return backward && unit == 1 && step == 1;
        };
        cluster.RunWell([&](FakeRank r) {
          InitializeFake(r.engine, 8);
          for (int64_t step = 0; step < 2; ++step) {
            for (int micro = 0; micro < passes; ++micro) {
              FakePass(r.engine, r.rank, step, micro, micro + 1 == passes, twist);
            }
            for (const OwnedStretch& owned : r.engine.Owned()) {
              ASSERT_EQ(owned.gradient.size(), owned.master.size());
              const float wanted = owned.unit == 1 && step == 1 ? 0 : 8 * mean;
              for (const float g : owned.gradient) ASSERT_EQ(g, wanted);
            }
            r.engine.Step({.lr = 0.01f});
          }
        });
      }
    }
  }
}

TEST(EngineMicroBatches, StepsAndPassesOutOfOrderAreNamed) {
  const auto error_of = [](const std::function<void(FakeRank)>& body) {
    FakeCluster cluster{.hosts = 1, .locals = 1};
    cluster.options.micro_batches = 0;
    return cluster
        .Run([&](FakeRank r) {
          InitializeFake(r.engine);
          FakePass(r.engine, r.rank, 0, 0, false);
          body(r);
        })[0]
        .error;
  };
  EXPECT_NE(error_of([](FakeRank r) {
              r.engine.Step({});
            }).find("a step after 1 training passes none of which was called the last one"),
            std::string::npos);
  EXPECT_NE(error_of([](FakeRank r) {
              FakePass(r.engine, r.rank, 0, 1, true);
              FakePass(r.engine, r.rank, 0, 2, true);
            }).find("a training pass after the one that was called the last of its step"),
            std::string::npos);
}

}  // namespace
}  // namespace thinwire::zero
