// Passes that the caller could not end: all ranks are between passes again, and a retry counts as
// if nothing had been.
#include "thinwire/zero/fake_events.h"

namespace thinwire::zero {
namespace {

// An embedding, whose weights backward does not read, and a root that is held throughout.
const std::vector<Event> kForward = EventsOf("a4 a0r0 a1r1 a2r2 a3r3 r4");
const std::vector<Event> kBackward = EventsOf("a4 a3r3g3 a2r2g2 a1r1g1 g0 r4 g4");

std::vector<Event> First(const std::vector<Event>& events, size_t count) {
  return {events.begin(), events.begin() + static_cast<std::ptrdiff_t>(count)};
}

struct Case {
  std::string recipe;
  int stage;
  int micro_batches;
};

std::string NameOfCase(const testing::TestParamInfo<Case>& test) {
  return StrCat(test.param.recipe, "_stage", test.param.stage, "_micro", test.param.micro_batches);
}

FakeCluster ClusterOf(const Case& c) {
  FakeCluster cluster;
  cluster.options.recipe = c.recipe;
  cluster.options.stage = c.stage;
  cluster.options.micro_batches = c.micro_batches;
  return cluster;
}

class EngineAbandon : public testing::TestWithParam<Case> {};

// Every pass is abandoned before it is made: after none, some or all events of its forward, or in
// backward.
TEST_P(EngineAbandon, ARetryEqualsOneProcess) {
  const int micro_batches = GetParam().micro_batches;
  FakeCluster cluster = ClusterOf(GetParam());
  const Plan plan = cluster.PlanOf(0);
  cluster.RunWell([&](FakeRank r) {
    Reference reference(plan, 2, 2);
    const auto& masters = reference.master();
    InitializeFake(r.engine);
    for (int64_t step = 0; step < 4; ++step) {
      for (int micro = 0; micro < micro_batches; ++micro) {
        const bool last = micro + 1 == micro_batches;
        for (const size_t events : {size_t{0}, size_t{1}, size_t{4}, kForward.size()}) {
          r.engine.BeginPass(PassKind::kTrain, last);
          Play(r.engine, r.rank, 99, micro, First(kForward, events), masters);
          EXPECT_EQ(r.engine.AbandonPass(), micro);
          if (step == 0 && events == 1) break;  // so that the retry is the first whole pass
        }
        if (micro == 0) {
          r.engine.BeginPass(PassKind::kTrain, last);
          Play(r.engine, r.rank, 99, micro, kForward, masters);
          Play(r.engine, r.rank, 99, micro, First(kBackward, step == 1 ? 9 : 4), masters);
          if (step == 2) r.engine.GradientBuffer(2);
          EXPECT_EQ(r.engine.AbandonPass(), 0);
        }
        r.engine.BeginPass(PassKind::kTrain, last);
        Play(r.engine, r.rank, step, micro, kForward, masters);
        Play(r.engine, r.rank, step, micro, kBackward, masters);
        r.engine.EndPass();
        r.engine.BeginPass(PassKind::kEvaluate, true);
        Play(r.engine, r.rank, step, micro, First(kForward, static_cast<size_t>(1 + step)),
             masters);
        EXPECT_EQ(r.engine.AbandonPass(), micro + 1);
      }
      r.engine.Step({.lr = FakeLr(step)});
      reference.Step(step);
    }
    ExpectMasters(r.engine, reference);
  });
}

// What was added to the sums of earlier micro-batches cannot be taken out again, so that all of the
// step starts anew; on all ranks, though only one had come that far.
class EngineAbandonLate : public EngineAbandon {};

TEST_P(EngineAbandonLate, GradientsThatWereAddedTakeTheStepWithThem) {
  const int micro_batches = GetParam().micro_batches;
  FakeCluster cluster = ClusterOf(GetParam());
  const Plan plan = cluster.PlanOf(0);
  cluster.RunWell([&](FakeRank r) {
    Reference reference(plan, 2, 2);
    const auto& masters = reference.master();
    InitializeFake(r.engine);
    const auto pass = [&](int64_t step, int micro) {
      r.engine.BeginPass(PassKind::kTrain, micro + 1 == micro_batches);
      Play(r.engine, r.rank, step, micro, kForward, masters);
      Play(r.engine, r.rank, step, micro, kBackward, masters);
      r.engine.EndPass();
    };
    for (int64_t step = 0; step < 3; ++step) {
      if (step > 0) {
        for (int micro = 0; micro + 1 < micro_batches; ++micro) pass(99, micro);
        r.engine.BeginPass(PassKind::kTrain, true);
        Play(r.engine, r.rank, 99, 9, kForward, masters);
        if (r.rank == 2) Play(r.engine, r.rank, 99, 9, First(kBackward, 5), masters);
        EXPECT_EQ(r.engine.AbandonPass(), 0);
      }
      for (int micro = 0; micro < micro_batches; ++micro) pass(step, micro);
      r.engine.Step({.lr = FakeLr(step)});
      reference.Step(step);
    }
    ExpectMasters(r.engine, reference);
  });
}

INSTANTIATE_TEST_SUITE_P(All, EngineAbandon,
                         testing::Values(Case{"zero3", 3, 1}, Case{"zero3", 3, 3},
                                         Case{"hpz", 3, 2}, Case{"zero3", 2, 1},
                                         Case{"zero3", 2, 2}, Case{"zero3", 1, 1},
                                         Case{"zero3", 1, 2}),
                         NameOfCase);
INSTANTIATE_TEST_SUITE_P(All, EngineAbandonLate,
                         testing::Values(Case{"zero3", 3, 3}, Case{"hpz", 3, 2},
                                         Case{"zero3", 2, 2}, Case{"zero3", 1, 2}),
                         NameOfCase);

// In the first pass, which has no program, and later; in forward.
TEST(EngineAbandonment, OfSomeRanksIsAnErrorThatNamesThem) {
  for (const int64_t steps : {0, 2}) {
    FakeCluster cluster;
    const auto outcomes = cluster.Run([&](FakeRank r) {
      InitializeFake(r.engine);
      FakeTraining(r.engine, r.rank, 0, steps);
      if (r.rank == 1) {
        r.engine.BeginPass(PassKind::kTrain, true);
        r.engine.Acquire(0);
        r.engine.AbandonPass();
      }
      FakeTraining(r.engine, r.rank, steps, steps + 1);
    });
    for (const Outcome& outcome : outcomes) {
      EXPECT_NE(outcome.error.find(
                    StrCat("rank 1 wants to abandon its training pass of step ", steps + 1)),
                std::string::npos)
          << outcome.error;
    }
  }
}

}  // namespace
}  // namespace thinwire::zero
