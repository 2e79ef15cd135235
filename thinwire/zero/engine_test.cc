#include "thinwire/zero/engine.h"

#include <gtest/gtest.h>

#include "thinwire/transport/in_process_board.h"
#include "thinwire/transport/thread_ranks.h"
#include "thinwire/transport/thread_transport.h"
#include "thinwire/zero/fake_model.h"

namespace thinwire::zero {
namespace {

struct Case {
  int hosts, locals;
  std::string recipe;
  int micro_batches;
  int prefetch;
  int64_t chunk_bytes;
  int stage = 3;
};

class EngineBitwise : public testing::TestWithParam<Case> {};

TEST_P(EngineBitwise, EqualsOneProcessThatSumsInTheSameOrder) {
  const Case c = GetParam();
  const int world = c.hosts * c.locals;
  EngineOptions options{.recipe = c.recipe,
                        .stage = c.stage,
                        .compute = DType::kF32,
                        .wire = DType::kF32,
                        .micro_batches = c.micro_batches,
                        .prefetch = c.prefetch,
                        .chunk_bytes = c.chunk_bytes,
                        .max_grad_norm = 0.5f};
  options.deadline = std::chrono::milliseconds(20'000);
  constexpr int64_t kSteps = 4;

  const Plan plan0 = MakePlan(FakeUnits(), comm::Topology(c.hosts, c.locals, 0), options);
  Reference reference(plan0, c.hosts, c.locals);
  std::vector<double> norms;
  for (int64_t step = 0; step < kSteps; ++step) norms.push_back(reference.Step(step));

  transport::ThreadFabric bulk(world), control(world);
  transport::InProcessBoard board(world);
  transport::RunRanks({&bulk, &control}, [&](int rank) {
    Engine engine(MakePlan(FakeUnits(), comm::Topology(c.hosts, c.locals, rank), options),
                  {bulk.transport(rank), control.transport(rank), board});
    InitializeFake(engine);
    for (int64_t step = 0; step < kSteps; ++step) {
      for (int micro = 0; micro < c.micro_batches; ++micro) {
        FakePass(engine, rank, step, micro, micro + 1 == c.micro_batches);
      }
      const StepResult result = engine.Step({.lr = FakeLr(step), .loss = FakeLoss(rank, step)});
      EXPECT_EQ(result.grad_norm, norms[static_cast<size_t>(step)]);
      EXPECT_EQ(result.step, step + 1);
    }
    for (const OwnedStretch& owned : engine.Owned()) {
      const UnitLayout& unit = engine.plan().units[static_cast<size_t>(owned.unit)];
      const auto& expected = reference.master()[static_cast<size_t>(owned.unit)];
      const int64_t at = unit.places[static_cast<size_t>(owned.parameter)].offset + owned.offset;
      for (size_t i = 0; i < owned.master.size(); ++i) {
        ASSERT_EQ(owned.master[i], expected[static_cast<size_t>(at) + i])
            << unit.spec.name << " element " << at << "+" << i << " rank " << rank;
      }
    }
  });
}

std::string Letters(std::string text) {
  std::erase_if(text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return text;
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const auto& [hosts, locals] :
       std::vector<std::pair<int, int>>{{1, 1}, {1, 4}, {2, 1}, {2, 2}, {3, 2}, {2, 3}, {4, 2}}) {
    // The last two pass on the codes of the slow gather, which here are the values themselves.
    for (const char* recipe :
         {"zero3", "hpz", "fast_gather=codes", "keep=codes, fast_gather=codes"}) {
      for (const int micro : {1, 3}) cases.push_back({hosts, locals, recipe, micro, 2, 4096});
    }
    for (const int stage : {1, 2}) {
      for (const int micro : {1, 3}) {
        cases.push_back({hosts, locals, "zero3", micro, 2, 4096, stage});
      }
      cases.push_back({hosts, locals, "fast_gather=codes", 1, 2, 4096, stage});
    }
  }
  cases.push_back({2, 2, "zero3", 1, 0, 1 << 20});
  cases.push_back({2, 2, "hpz", 2, 7, 1 << 20});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, EngineBitwise, testing::ValuesIn(Cases()), [](const auto& test) {
  const Case& c = test.param;
  return StrCat(Letters(c.recipe), "_stage", c.stage, "_", c.hosts, "x", c.locals, "_micro",
                c.micro_batches, "_prefetch", c.prefetch, "_chunk", c.chunk_bytes);
});

}  // namespace
}  // namespace thinwire::zero
