// Passes whose order varies from one to the next, alike on all ranks: every weight that is seen and
// every gradient that counts is right, and orders that come again are foreseen.
#include <cmath>

#include "thinwire/comm/agreement.h"
#include "thinwire/zero/fake_events.h"

namespace thinwire::zero {
namespace {

// One pass over all units in a random order, with a random depth of nesting, weights acquired again
// in backward or not (checkpoints), and units that are acquired twice.
std::vector<Event> RandomPass(uint64_t seed, size_t most_held) {
  uint64_t draws = seed;
  const auto draw = [&](uint64_t n) { return Mix64(++draws * 0x9e3779b97f4a7c15u + seed) % n; };
  std::vector<Event> events;
  const auto visit = [&](bool backward) {
    std::vector<int> order = {0, 1, 2, 3, 4};
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw(i)]);
    std::vector<int> held;
    const auto release = [&](size_t which) {
      events.push_back({EventKind::kRelease, held[which]});
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
    };
    for (const int u : order) {
      if (!backward || draw(4) > 0) {
        while (held.size() >= most_held) release(draw(held.size()));
        const uint64_t times = 1 + (draw(5) == 0 ? 1 : 0);
        for (uint64_t i = 0; i < times; ++i) events.push_back({EventKind::kAcquire, u});
        for (uint64_t i = 1; i < times; ++i) events.push_back({EventKind::kRelease, u});
        held.push_back(u);
        if (draw(3) > 0) release(held.size() - 1);
      }
      if (backward) events.push_back({EventKind::kReduce, u});
    }
    while (!held.empty()) release(draw(held.size()));
  };
  visit(false);
  visit(true);
  return events;
}

struct Case {
  std::string recipe;
  int stage;
  int hosts, locals;
  int micro_batches;
  int prefetch;
};

class EnginePrograms : public testing::TestWithParam<Case> {
 protected:
  FakeCluster Cluster() const {
    const Case& c = GetParam();
    FakeCluster cluster{.hosts = c.hosts, .locals = c.locals};
    cluster.options.recipe = c.recipe;
    cluster.options.stage = c.stage;
    cluster.options.micro_batches = c.micro_batches;
    cluster.options.prefetch = c.prefetch;
    return cluster;
  }
};

// More orders than there are programs, some of which come again.
TEST_P(EnginePrograms, AnyOrderEqualsOneProcess) {
  const Case& c = GetParam();
  FakeCluster cluster = Cluster();
  const Plan plan = cluster.PlanOf(0);
  const size_t most_held = static_cast<size_t>(c.prefetch) + 1;
  cluster.RunWell([&](FakeRank r) {
    Reference reference(plan, c.hosts, c.locals);
    InitializeFake(r.engine);
    for (int64_t step = 0; step < 14 / c.micro_batches; ++step) {
      for (int micro = 0; micro < c.micro_batches; ++micro) {
        const uint64_t order = Mix64(static_cast<uint64_t>(step * 7 + micro)) % 7;
        PlayPass(r.engine, PassKind::kTrain, r.rank, step, micro, micro + 1 == c.micro_batches,
                 RandomPass(order, most_held), reference.master());
        std::vector<Event> forward = RandomPass(100 + order, most_held);
        std::erase_if(forward, [](const Event& e) { return e.kind == EventKind::kReduce; });
        PlayPass(r.engine, PassKind::kEvaluate, r.rank, step, micro, true, forward,
                 reference.master());
      }
      r.engine.Step({.lr = FakeLr(step)});
      reference.Step(step);
    }
    ExpectMasters(r.engine, reference);
  });
}

INSTANTIATE_TEST_SUITE_P(All, EnginePrograms,
                         testing::Values(Case{"zero3", 3, 2, 2, 1, 0}, Case{"zero3", 3, 2, 2, 2, 2},
                                         Case{"hpz", 3, 3, 2, 1, 1}, Case{"hpz", 3, 2, 2, 2, 3},
                                         Case{"zero3", 2, 2, 2, 2, 2}, Case{"zero3", 1, 2, 2, 2, 2},
                                         Case{"zero3", 3, 1, 1, 2, 1},
                                         Case{"zero3", 3, 1, 4, 1, 2}),
                         [](const auto& test) {
                           const Case& c = test.param;
                           return StrCat(c.recipe, "_stage", c.stage, "_", c.hosts, "x", c.locals,
                                         "_", c.micro_batches, "_", c.prefetch);
                         });

// Orders that take turns are recorded once: from then on a pass begins with one record and sends
// the bytes of its own program.
TEST(EngineProgram, OrdersThatTakeTurnsAreForeseen) {
  const std::vector<std::vector<Event>> turns = {
      EventsOf("a0r0 a1r1 a2r2 a3r3 a4r4 a4r4g4 a3r3g3 a2r2g2 a1r1g1 g0"),
      EventsOf("a1r1 a0r0 a2r2 a3r3 a4r4 a4r4g4 a2r2g2 a3r3g3 a1r1g1 g0"),
      EventsOf("a0 a1 r1r0 a2r2 a4r4 a4r4g4 g3 a2r2g2 a1r1 a1r1g1 g0")};
  FakeCluster cluster;
  const Plan plan = cluster.PlanOf(0);
  cluster.RunWell([&](FakeRank r) {
    Reference reference(plan, 2, 2);
    InitializeFake(r.engine);
    int64_t gathered = 0;
    for (int64_t step = 0; step < 15; ++step) {
      const Traffic before = r.engine.traffic();
      PlayPass(r.engine, PassKind::kTrain, r.rank, step, 0, true,
               turns[static_cast<size_t>(step) % turns.size()], reference.master());
      r.engine.Step({.lr = FakeLr(step)});
      reference.Step(step);
      if (step < 6) continue;
      const Traffic after = r.engine.traffic();
      EXPECT_EQ(after.control_bytes - before.control_bytes,
                static_cast<int64_t>(2 * 3 * sizeof(comm::Record)))
          << step;
      if (step % 3 != 0) continue;
      if (step > 6) {
        EXPECT_EQ(after.bytes[0] - before.bytes[0], gathered);
      }
      gathered = after.bytes[0] - before.bytes[0];
    }
    ExpectMasters(r.engine, reference);
  });
}

// A unit that only one micro-batch had gradients for, or none: their sum over the step counts, and
// nothing of an earlier step.
TEST(EngineProgram, UnitsThatOneMicroBatchLeavesOut) {
  for (const int stage : {1, 2, 3}) {
    FakeCluster cluster;
    cluster.options.stage = stage;
    cluster.options.micro_batches = 2;
    cluster.options.max_grad_norm = 0;
    cluster.RunWell([&](FakeRank r) {
      InitializeFake(r.engine);
      const auto pass = [&](bool last, std::initializer_list<int> units) {
        r.engine.BeginPass(PassKind::kTrain, last);
        for (const int u : units) {
          const auto numel = r.engine.plan().units[static_cast<size_t>(u)].numel();
          std::fill_n(reinterpret_cast<float*>(r.engine.GradientBuffer(u)), numel, 1.0f);
          r.engine.ReduceGradients(u);
        }
        r.engine.EndPass();
      };
      const auto norm_of = [&](std::initializer_list<std::pair<int, double>> gradients) {
        double squares = 0;
        for (const auto& [u, g] : gradients) {
          squares +=
              g * g * static_cast<double>(r.engine.plan().units[static_cast<size_t>(u)].numel());
        }
        return std::sqrt(squares);
      };
      for (int round = 0; round < 3; ++round) {
        pass(false, {0, 1, 2, 3, 4});
        pass(true, {4, 3, 2, 1, 0});
        EXPECT_NEAR(r.engine.Step({}).grad_norm, norm_of({{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}}),
                    1e-6);
        pass(false, {2, 0, 1});
        pass(true, {1, 2, 3});
        EXPECT_NEAR(r.engine.Step({}).grad_norm, norm_of({{0, 0.5}, {1, 1}, {2, 1}, {3, 0.5}}),
                    1e-6)
            << stage << " " << round;
        pass(false, {1});
        pass(true, {2});
        EXPECT_NEAR(r.engine.Step({}).grad_norm, norm_of({{1, 0.5}, {2, 0.5}}), 1e-6)
            << stage << " " << round;
      }
    });
  }
}

// Ranks that leave the order in different ways, in the same call or in different ones.
TEST(EngineProgram, RanksThatDeviateDifferentlyAreNamed) {
  for (const bool evaluate : {false, true}) {
    FakeCluster cluster;
    const Plan plan = cluster.PlanOf(0);
    const auto outcomes = cluster.Run([&](FakeRank r) {
      const Reference reference(plan, 2, 2);
      InitializeFake(r.engine);
      const PassKind kind = evaluate ? PassKind::kEvaluate : PassKind::kTrain;
      for (int i = 0; i < 2; ++i) {
        PlayPass(r.engine, kind, r.rank, 0, 0, true, EventsOf("a0r0 a1r1 a2r2"),
                 reference.master());
        if (!evaluate) r.engine.Step({});
      }
      PlayPass(r.engine, kind, r.rank, 0, 0, true,
               EventsOf(r.rank == 2 ? "a2r2 a0r0 a1r1" : "a2r2 a1r1 a0r0"), reference.master());
      r.engine.MeanOverRanks(0);
    });
    for (const Outcome& outcome : outcomes) {
      EXPECT_NE(outcome.error.find("rank 1 wants a gather of layer0 in step"), std::string::npos)
          << outcome.error;
      EXPECT_NE(outcome.error.find("rank 2 wants a gather of embed in step"), std::string::npos)
          << outcome.error;
    }
  }
}

}  // namespace
}  // namespace thinwire::zero
