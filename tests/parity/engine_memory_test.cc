// What an engine holds against what its plan says. Four ranks as threads, so the process holds four
// times the plan.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cctype>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "thinwire/transport/in_process_board.h"
#include "thinwire/transport/thread_ranks.h"
#include "thinwire/zero/engine.h"

namespace thinwire::zero {
namespace {

// A line of /proc/self/status, in bytes.
int64_t StatusBytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1)) * 1024;
  }
  return -1;
}

// Lets VmHWM begin anew at what is resident now.
bool ForgetPeak() { return static_cast<bool>(std::ofstream("/proc/self/clear_refs") << "5"); }

std::vector<UnitSpec> Blocks(int count, int64_t width) {
  std::vector<UnitSpec> units;
  for (int i = 0; i < count; ++i) {
    const std::string name = StrCat("block", i);
    units.push_back({name,
                     {{name + ".w", {width, width}},
                      {name + ".norm", {width}},
                      {name + ".v", {width, width / 2}}}});
  }
  return units;
}

// Gradients that cost nothing to make: memory is what this is about.
void TrainStep(Engine& engine) {
  const Plan& plan = engine.plan();
  for (int micro = 1; micro <= plan.options.micro_batches; ++micro) {
    engine.BeginPass(PassKind::kTrain, micro == plan.options.micro_batches);
    const int units = static_cast<int>(plan.units.size());
    for (int u = 0; u < units; ++u) {
      engine.Acquire(u);
      engine.Release(u);
    }
    for (int u = units - 1; u >= 0; --u) {
      engine.Acquire(u);
      engine.Release(u);
      const int64_t bytes =
          plan.units[static_cast<size_t>(u)].numel() * SizeOf(plan.options.compute);
      std::memset(engine.GradientBuffer(u), 0x3c, static_cast<size_t>(bytes));
      engine.ReduceGradients(u);
    }
    engine.EndPass();
  }
  engine.Step({.lr = 1e-3f, .loss = 1});
}

struct Measured {
  int64_t planned = 0;  // over all ranks
  int64_t peak = 0;     // above what was resident before the engines
  int64_t early = 0;    // resident after `early_step`
  int64_t late = 0;     // resident at the end
};

constexpr int64_t kEarlyStep = 20;

Measured Measure(const std::vector<UnitSpec>& units, const EngineOptions& options, int64_t steps) {
  constexpr int kHosts = 2, kLocals = 2, kWorld = kHosts * kLocals;
  transport::ThreadFabric bulk(kWorld), control(kWorld);
  transport::InProcessBoard board(kWorld);
  Measured measured;
  std::vector<Plan> plans;
  for (int rank = 0; rank < kWorld; ++rank) {
    plans.push_back(MakePlan(units, comm::Topology(kHosts, kLocals, rank), options));
    measured.planned += plans.back().memory_bytes();
  }
  malloc_trim(0);  // what earlier engines left
  EXPECT_TRUE(ForgetPeak());
  const int64_t before = StatusBytes("VmRSS");
  transport::RunRanks({&bulk, &control}, [&](int rank) {
    Engine engine(plans[static_cast<size_t>(rank)],
                  {bulk.transport(rank), control.transport(rank), board});
    engine.RefreshWeights(0);
    for (int64_t step = 1; step <= steps; ++step) {
      TrainStep(engine);
      if (step != kEarlyStep && step != steps) continue;
      engine.MeanOverRanks(0);  // the others have done their step
      if (rank == 0) (step == steps ? measured.late : measured.early) = StatusBytes("VmRSS");
      engine.MeanOverRanks(0);
    }
  });
  measured.peak = StatusBytes("VmHWM") - before;
  return measured;
}

// It owes what the slow reduce loses.
constexpr const char* kOwing =
    "slow_gather=ternary/128, fast_reduce=rot128+int8/128, "
    "slow_reduce=rot128+ternary/128/rms1.22, keep=reference, feedback=int8/128";

struct Case {
  std::string recipe;
  int micro_batches;
  int prefetch;

  std::string Name() const {
    std::string name = StrCat(recipe, "_micro", micro_batches, "_prefetch", prefetch);
    std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
    return name;
  }
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.Name(); }
};

class EngineMemory : public testing::TestWithParam<Case> {};

TEST_P(EngineMemory, PeaksWithinATenthOfThePlan) {
  const Case& c = GetParam();
  const Measured measured =
      Measure(Blocks(6, 1024),
              {.recipe = c.recipe, .micro_batches = c.micro_batches, .prefetch = c.prefetch}, 3);
  EXPECT_GT(measured.planned, 4 * (int64_t{50} << 20));
  EXPECT_NEAR(static_cast<double>(measured.peak), static_cast<double>(measured.planned),
              0.1 * static_cast<double>(measured.planned));
}

INSTANTIATE_TEST_SUITE_P(All, EngineMemory,
                         testing::Values(Case{"zero3", 1, 2}, Case{"hpz", 1, 1}, Case{"hpz", 2, 2},
                                         Case{"zero++", 1, 2}, Case{"delta4", 1, 2},
                                         Case{"ternary+coded", 2, 2}, Case{kOwing, 1, 2}),
                         [](const auto& test) { return test.param.Name(); });

TEST(EngineMemoryOverTime, StaysFlatOver200Steps) {
  const Measured measured =
      Measure(Blocks(4, 96), {.recipe = "hpz", .prefetch = 1, .chunk_bytes = 4096}, 200);
  EXPECT_GT(measured.early, 0);
  EXPECT_LT(static_cast<double>(measured.late), 1.02 * static_cast<double>(measured.early));
}

}  // namespace
}  // namespace thinwire::zero
