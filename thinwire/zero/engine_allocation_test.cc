// After two steps the engine allocates nothing: every allocation of this program is counted while
// all ranks take one more step. What the ranks themselves do in it allocates nothing either.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>

#include "thinwire/base/counted_malloc.h"
#include "thinwire/zero/fake_cluster.h"

namespace thinwire::zero {
namespace {

TEST(Allocations, AreCounted) {
  if (!THINWIRE_COUNTS_ALLOCATIONS) GTEST_SKIP() << "not under a sanitizer";
  Counter().on = true;
  { const AlignedBuffer buffer(100); }
  // Volatile, or the compiler may leave it out.
  int* volatile number = new int(3);
  delete number;
  Counter().on = false;
  EXPECT_EQ(Counter().count.exchange(0), 2);
}

constexpr const char* kFeedback = "slow_reduce=rot32+ternary/128, feedback=int8/128";

struct Case {
  std::string recipe;
  int micro_batches;
  std::string optimizer = "adamw";
};

class EngineAllocations : public testing::TestWithParam<Case> {};

void LeanPass(Engine& engine, PassKind kind, bool last) {
  const Plan& plan = engine.plan();
  const int units = static_cast<int>(plan.units.size());
  engine.BeginPass(kind, last);
  for (int u = 0; u < units; ++u) {
    engine.Acquire(u);
    engine.Release(u);
  }
  for (int u = units - 1; u >= 0 && kind == PassKind::kTrain; --u) {
    const UnitLayout& unit = plan.units[static_cast<size_t>(u)];
    engine.Acquire(u);
    engine.Release(u);
    std::memset(engine.GradientBuffer(u), 0, static_cast<size_t>(unit.flat_bytes()));
    engine.ReduceGradients(u);
  }
  engine.EndPass();
}

// A fabric keeps as many message objects as were ever in flight at once, which depends on timing:
// make it more than any step needs.
void Prewarm(transport::Transport& transport) {
  std::vector<transport::Token> tokens;
  std::vector<std::byte> bytes(512);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int peer = (transport.rank() + 1) % transport.size();
    tokens.push_back(transport.Recv({}, peer, (1u << 30) + (1u << 29) + static_cast<uint32_t>(i),
                                    std::span(bytes).subspan(i, 1)));
  }
}

TEST_P(EngineAllocations, NoneAfterTwoSteps) {
  if (!THINWIRE_COUNTS_ALLOCATIONS) GTEST_SKIP() << "not under a sanitizer";
  const Case c = GetParam();
  FakeCluster cluster;
  cluster.options.recipe = c.recipe;
  cluster.options.micro_batches = c.micro_batches;
  cluster.options.optimizer = optim::ByName(c.optimizer);
  cluster.options.wire = cluster.options.compute = DType::kBF16;
  cluster.options.deadline = std::chrono::milliseconds(2400);
  std::barrier everybody(4);
  cluster.RunWell([&](FakeRank r) {
    const auto step = [&] {
      for (int micro = 0; micro < c.micro_batches; ++micro) {
        LeanPass(r.engine, PassKind::kTrain, micro + 1 == c.micro_batches);
      }
      r.engine.Step({.lr = 1e-3f, .loss = 0.5});
      LeanPass(r.engine, PassKind::kEvaluate, true);
      r.engine.MeanOverRanks(1);
    };
    InitializeFake(r.engine);
    // The lag of differences is measured in one of the steps that count.
    r.engine.RefreshWeights(13);
    step();
    step();
    Prewarm(r.bulk);
    everybody.arrive_and_wait();
    if (r.rank == 0) Counter().on = true;
    everybody.arrive_and_wait();
    for (int i = 0; i < 5; ++i) step();
    // Long enough for the watchdogs to look, too.
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    everybody.arrive_and_wait();
    if (r.rank == 0) Counter().on = false;
    everybody.arrive_and_wait();
  });
  EXPECT_EQ(Counter().count.exchange(0), 0);
}

INSTANTIATE_TEST_SUITE_P(All, EngineAllocations,
                         testing::Values(Case{"zero3", 1}, Case{"zero3", 3}, Case{"hpz", 1},
                                         Case{"hpz", 3}, Case{"hpz", 1, "lamb"}, Case{"delta4", 2},
                                         Case{"ternary", 1}, Case{"ternary+coded", 1},
                                         Case{kFeedback, 1}, Case{"zero+++coded", 2},
                                         Case{"qwz+qgz+coded", 1}),
                         [](const auto& test) {
                           std::string recipe = test.param.recipe;
                           if (recipe == kFeedback) recipe = "feedback";
                           std::ranges::replace(recipe, '+', '_');
                           std::ranges::replace(recipe, '-', '_');
                           return StrCat(recipe, "_", test.param.micro_batches, "_",
                                         test.param.optimizer);
                         });

}  // namespace
}  // namespace thinwire::zero
