// Reductions that run twice in the last micro-batch of a step: of a pass that was given up before
// it had gradients, and of one that left its program. The sums of earlier micro-batches stay what
// they are, rotated or not, and what the slow reduce owes is neither lost nor sent twice.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "thinwire/zero/fake_events.h"

namespace thinwire::zero {
namespace {

constexpr int kUnits = 5, kSteps = 4, kMicroBatches = 3;

enum class Last { kPlain, kGivenUpBefore, kOutOfOrder };

struct Case {
  const char* name;
  const char* recipe;
  int stage;
  double most_error;  // relative, of the sum over steps of what is reduced
};

// The gradients are the same in all steps. The first reduction of the program is the caller's last.
void Pass(FakeRank& r, int micro, bool last, bool in_order) {
  r.engine.BeginPass(PassKind::kTrain, last);
  for (int u = 0; u < kUnits; ++u) {
    r.engine.Acquire(u);
    r.engine.Release(u);
  }
  for (int i = 0; i < kUnits; ++i) {
    const int u = in_order ? i : (i + 1) % kUnits;
    float* const gradient = reinterpret_cast<float*>(r.engine.GradientBuffer(u));
    for (int64_t e = 0; e < r.engine.plan().units[static_cast<size_t>(u)].numel(); ++e) {
      gradient[e] = FakeGradient(0, u, e, r.rank, 0, micro);
    }
    r.engine.ReduceGradients(u);
  }
  r.engine.EndPass();
}

// The error of the sum over steps of the reduced gradients, by its norm.
double ErrorOf(const Case& c, Last how) {
  FakeCluster cluster;
  cluster.options.recipe = c.recipe;
  cluster.options.stage = c.stage;
  cluster.options.micro_batches = kMicroBatches;
  std::mutex mutex;
  double error = 0, signal = 0;
  cluster.RunWell([&](FakeRank r) {
    InitializeFake(r.engine);
    std::vector<std::vector<double>> sums;
    for (int step = 0; step < kSteps; ++step) {
      for (int micro = 0; micro < kMicroBatches; ++micro) {
        const bool last = micro + 1 == kMicroBatches;
        if (last && how == Last::kGivenUpBefore) {
          r.engine.BeginPass(PassKind::kTrain, true);
          r.engine.Acquire(0);
          EXPECT_EQ(r.engine.AbandonPass(), micro);
        }
        Pass(r, micro, last, !last || how != Last::kOutOfOrder);
      }
      size_t at = 0;
      for (const OwnedStretch& owned : r.engine.Owned()) {
        if (step == 0) sums.emplace_back(owned.gradient.size());
        for (size_t i = 0; i < owned.gradient.size(); ++i) sums[at][i] += owned.gradient[i];
        ++at;
      }
      r.engine.Step({.lr = 0});
    }
    const std::lock_guard lock(mutex);
    size_t at = 0;
    for (const OwnedStretch& owned : r.engine.Owned()) {
      const UnitLayout& unit = r.engine.plan().units[static_cast<size_t>(owned.unit)];
      const int64_t start = unit.places[static_cast<size_t>(owned.parameter)].offset + owned.offset;
      for (size_t i = 0; i < owned.gradient.size(); ++i) {
        double mean = 0;
        for (int term = 0; term < 4 * kMicroBatches; ++term) {
          mean +=
              FakeGradient(0, owned.unit, start + static_cast<int64_t>(i), term % 4, 0, term / 4) /
              (4.0 * kMicroBatches);
        }
        error += std::pow(sums[at][i] / kSteps - mean, 2);
        signal += mean * mean;
      }
      ++at;
    }
  });
  return std::sqrt(error / signal);
}

class EngineReduceTwice : public testing::TestWithParam<Case> {};

TEST_P(EngineReduceTwice, LeavesSumsAndDebtsWhatTheyAre) {
  for (const Last how : {Last::kPlain, Last::kGivenUpBefore, Last::kOutOfOrder}) {
    EXPECT_LT(ErrorOf(GetParam(), how), GetParam().most_error) << static_cast<int>(how);
  }
}

constexpr const char* kRotates = "fast_reduce=rot32+int8/128, slow_reduce=rot32+int8/128";
constexpr const char* kOwes =
    "fast_reduce=rot32+int8/128, slow_reduce=rot32+ternary/128/rms1.22, feedback=int8/128";

INSTANTIATE_TEST_SUITE_P(All, EngineReduceTwice,
                         testing::Values(Case{"rotates_stage1", kRotates, 1, 0.02},
                                         Case{"rotates_stage3", kRotates, 3, 0.02},
                                         Case{"owes_stage1", kOwes, 1, 0.35},
                                         Case{"owes_stage3", kOwes, 3, 0.15}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::zero
