// Generation: ranks make different numbers of evaluation passes, and those that are done serve the
// others (#860, #2022, #3550).
#include "thinwire/zero/fake_events.h"

namespace thinwire::zero {
namespace {

// What each pass uses: a prompt, then tokens, then an order that comes when some ranks are done, of
// which the last is reached by skipping units first.
std::vector<Event> PassOf(int index) {
  if (index == 0) return EventsOf("a4 a0r0 a1r1 a2r2 a3r3 r4");
  if (index < 5) return EventsOf("a4 a0r0 a1 a2r2 r1 a3r3 r4");
  if (index % 2 == 1) return EventsOf("a0r0 a2r2 a1 a1r1r1 a4r4 a3r3");
  return EventsOf("a3r3 a0r0 a4r4");
}

void Generate(FakeRank r, const Reference& reference, int passes) {
  for (int i = 0; i < passes; ++i) {
    PlayPass(r.engine, PassKind::kEvaluate, r.rank, 0, 0, true, PassOf(i), reference.master());
  }
  r.engine.ServeUntilAllDone();
}

struct Case {
  int hosts, locals;
  std::string recipe;
  int stage;
};

class EngineServes : public testing::TestWithParam<Case> {};

TEST_P(EngineServes, RanksThatStopAtDifferentLengths) {
  const auto& [hosts, locals, recipe, stage] = GetParam();
  FakeCluster cluster{.hosts = hosts, .locals = locals};
  cluster.options.recipe = recipe;
  cluster.options.stage = stage;
  const Plan plan = cluster.PlanOf(0);
  cluster.RunWell([&](FakeRank r) {
    Reference reference(plan, hosts, locals);
    InitializeFake(r.engine);
    Generate(r, reference, 3 + 2 * r.rank);
    for (int64_t step = 0; step < 2; ++step) {
      FakePass(r.engine, r.rank, step, 0, true);
      r.engine.Step({.lr = FakeLr(step)});
      reference.Step(step);
      // The other way round, and some that serve from the start.
      Generate(r, reference, step == 0 ? 9 - 2 * r.rank : 3 * (r.rank % 2));
    }
    ExpectMasters(r.engine, reference);
    EXPECT_EQ(r.engine.MeanOverRanks(2), 2);
  });
}

INSTANTIATE_TEST_SUITE_P(All, EngineServes,
                         testing::Values(Case{1, 1, "zero3", 3}, Case{2, 1, "zero3", 3},
                                         Case{1, 3, "zero3", 3}, Case{3, 1, "hpz", 3},
                                         Case{2, 2, "zero3", 3}, Case{2, 2, "hpz", 3},
                                         Case{2, 2, "zero3", 2}),
                         [](const auto& test) {
                           const Case& c = test.param;
                           return StrCat(c.recipe, "_stage", c.stage, "_", c.hosts, "x", c.locals);
                         });

TEST(EngineServe, AnAbandonedPassOfTheOthers) {
  FakeCluster cluster;
  const Plan plan = cluster.PlanOf(0);
  cluster.RunWell([&](FakeRank r) {
    const Reference reference(plan, 2, 2);
    InitializeFake(r.engine);
    for (int i = 0; i < 3 && r.rank < 2; ++i) {
      r.engine.BeginPass(PassKind::kEvaluate, true);
      Play(r.engine, r.rank, 0, 0, EventsOf("a0r0 a1"), reference.master());
      r.engine.AbandonPass();
      PlayPass(r.engine, PassKind::kEvaluate, r.rank, 0, 0, true, PassOf(0), reference.master());
    }
    r.engine.ServeUntilAllDone();
  });
}

void ExpectAllSay(const std::vector<Outcome>& outcomes, const std::vector<std::string>& words) {
  for (const Outcome& outcome : outcomes) {
    for (const std::string& word : words) {
      EXPECT_NE(outcome.error.find(word), std::string::npos) << outcome.error;
    }
  }
}

TEST(EngineServe, TrainingOrAStepOfAnotherRankIsAnError) {
  for (const bool step : {false, true}) {
    FakeCluster cluster;
    const auto outcomes = cluster.Run([&](FakeRank r) {
      InitializeFake(r.engine);
      if (step) FakePass(r.engine, r.rank, 0, 0, true);
      if (r.rank < 2) r.engine.ServeUntilAllDone();
      if (step) r.engine.Step({.lr = 0.5f});
      FakePass(r.engine, r.rank, 0, 0, true);
    });
    ExpectAllSay(outcomes,
                 {"rank 1 wants to serve evaluation passes until all ranks are done",
                  step ? "rank 2 wants optimizer step 1" : "rank 2 wants a training pass of step"});
  }
}

TEST(EngineServe, ARankThatDiesEndsTheOthers) {
  FakeCluster cluster;
  const Plan plan = cluster.PlanOf(0);
  const auto outcomes = cluster.Run([&](FakeRank r) {
    const Reference reference(plan, 2, 2);
    InitializeFake(r.engine);
    if (r.rank == 3) {
      PlayPass(r.engine, PassKind::kEvaluate, r.rank, 0, 0, true, PassOf(0), reference.master());
      throw std::runtime_error("no more tokens");
    }
    Generate(r, reference, 2 * r.rank);
  });
  for (const size_t rank : {size_t{0}, size_t{1}, size_t{2}}) {
    EXPECT_NE(outcomes[rank].error.find("rank 3: left"), std::string::npos) << outcomes[rank].error;
  }
}

}  // namespace
}  // namespace thinwire::zero
