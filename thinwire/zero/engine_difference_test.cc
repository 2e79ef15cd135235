// Weights that travel as differences to those of the step before, and gradients that are rotated.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <mutex>

#include "thinwire/zero/fake_cluster.h"

namespace thinwire::zero {
namespace {

constexpr const char* kRecipes[] = {"delta4", "delta-ternary", "ternary"};

FakeCluster ClusterOf(const std::string& recipe, DType compute = DType::kBF16) {
  FakeCluster cluster;
  cluster.options.recipe = recipe;
  cluster.options.wire = cluster.options.compute = compute;
  cluster.options.groups = {optim::GroupSettings{}, optim::GroupSettings{}};  // no decay
  cluster.units[2].parameters.push_back({"l1.vocabulary", {331, 24}});
  return cluster;
}

// The largest lag of a unit at the last measurement.
double LagOf(const Engine& engine) {
  return *std::ranges::max_element(engine.weight_lag().updates());
}

// The weights in use follow the masters within an update or two, though these updates fall fast.
TEST(EngineDifference, TheWeightsInUseStayNearTheMasters) {
  for (const char* recipe : kRecipes) {
    FakeCluster cluster = ClusterOf(recipe, DType::kF32);
    cluster.RunWell([&](FakeRank r) {
      InitializeFake(r.engine);
      EXPECT_EQ(r.engine.weight_lag().measured_at(), 0);
      FakeTraining(r.engine, r.rank, 0, 33);
      EXPECT_EQ(r.engine.weight_lag().measured_at(), 32);
      EXPECT_GT(LagOf(r.engine), 0.02) << recipe;
      EXPECT_LT(LagOf(r.engine), std::string(recipe) == "delta4" ? 0.5 : 2) << recipe;
    });
  }
}

// What one rank gave to the slow gather since the engine was made.
int64_t Pushed(const Engine& engine) { return engine.traffic().bytes[Index(Hop::kSlowGather)]; }

int64_t BytesOfPushes(const Plan& plan, bool full) {
  int64_t bytes = 0;
  for (const Routes& routes : plan.routes) {
    for (const auto& chunk : routes.of(Hop::kSlowGather, full)) bytes += chunk.sent_bytes();
  }
  return bytes;
}

TEST(EngineDifference, FullValuesComeFirstAndInTurnAndASkippedStepSendsNothing) {
  FakeCluster cluster = ClusterOf("delta4");
  cluster.options.full_weights_every = 10;  // each of the five units every other step
  cluster.RunWell([&](FakeRank r) {
    const Plan& plan = r.engine.plan();
    InitializeFake(r.engine);
    r.engine.Owned();  // waits for what is under way
    const int64_t full = BytesOfPushes(plan, true), difference = BytesOfPushes(plan, false);
    EXPECT_EQ(Pushed(r.engine), full);
    EXPECT_LT(difference, full / 2);
    FakeTraining(r.engine, r.rank, 0, 10);
    r.engine.Owned();
    EXPECT_EQ(Pushed(r.engine), 2 * full + 9 * difference);
    const int64_t before = Pushed(r.engine);
    FakePass(r.engine, r.rank, 10, 0, true,
             {.poison = [](int, int64_t, int) { return std::numeric_limits<float>::infinity(); }});
    EXPECT_FALSE(r.engine.Step({.lr = 1e-2f}).applied);
    r.engine.Owned();
    EXPECT_EQ(Pushed(r.engine), before);
  });
}

// A code that carries next to nothing is found out, on all ranks, and full values are sent instead.
TEST(EngineDifference, AUnitWhoseDifferencesDoNotArriveFallsBack) {
  FakeCluster cluster = ClusterOf("slow_gather=ternary/4096/max0.01, keep=reference", DType::kF32);
  cluster.RunWell([&](FakeRank r) {
    InitializeFake(r.engine);
    size_t fell_back = 0;
    for (int64_t step = 0; step < 18; ++step) {
      FakePass(r.engine, r.rank, step, 0, true);
      const StepResult result = r.engine.Step({.lr = FakeLr(step)});
      EXPECT_TRUE(result.notes.empty() || step == 1) << step;
      fell_back += result.notes.size();
      if (step != 1) continue;
      EXPECT_EQ(result.notes.at(0).substr(0, 75),
                "step 1: the differences of embed in ternary/4096/max0.01 leave its weights ");
    }
    // All but the one without matrices.
    EXPECT_EQ(fell_back, 4u);
    EXPECT_GT(LagOf(r.engine), WeightLag::kMost);
    r.engine.Owned();
    const int64_t before = Pushed(r.engine);
    FakeTraining(r.engine, r.rank, 18, 19);
    r.engine.Owned();
    int64_t expected = 0;
    for (size_t u = 0; u < r.engine.plan().units.size(); ++u) {
      const bool full = r.engine.weight_lag().FellBack(u, 19);
      EXPECT_EQ(full, u != 3) << u;
      for (const auto& chunk : r.engine.plan().routes[u].of(Hop::kSlowGather, full)) {
        expected += chunk.sent_bytes();
      }
    }
    EXPECT_EQ(Pushed(r.engine) - before, expected);
  });
}

// Of a code that loses all but next to nothing the weights are found behind, though all get full
// values after each step in which the ranks look otherwise.
TEST(EngineDifference, SavesDoNotBlindTheGauge) {
  FakeCluster cluster = ClusterOf("slow_gather=ternary/4096/max0.01, keep=reference", DType::kF32);
  cluster.RunWell([&](FakeRank r) {
    InitializeFake(r.engine);
    std::vector<int64_t> said;
    for (int64_t step = 0; step < 36; ++step) {
      FakePass(r.engine, r.rank, step, 0, true);
      if (!r.engine.Step({.lr = FakeLr(step)}).notes.empty()) said.push_back(step);
      if (step == 0 || step % 16 == 15) r.engine.CatchUp();
    }
    EXPECT_EQ(said, (std::vector<int64_t>{2, 17, 33}));
  });
}

// What is saved are masters; the weights in use are not. A run that saved goes on as one that
// resumes from it.
TEST(EngineDifference, ASavedRunAndAResumedOneHaveTheSameBits) {
  const std::string feedback =
      "slow_gather=ternary/128, fast_reduce=rot32+int8/128, slow_reduce=rot32+ternary/128, "
      "keep=reference, feedback=int8/128";
  for (const std::string& recipe : {std::string("delta4"), std::string("ternary"), feedback}) {
    FakeCluster cluster = ClusterOf(recipe);
    std::vector<std::vector<std::byte>> owed(4);
    std::vector<std::vector<float>> saved(4);
    std::vector<uint64_t> straight(4), resumed(4);
    std::vector<std::vector<uint64_t>> seen_straight(4), seen_resumed(4);
    const auto each = [](Engine& engine, auto&& visit) {
      for (const OwnedStretch& owned : engine.Owned()) {
        for (const auto& values : {owned.master, owned.states[0], owned.states[1]}) {
          for (float& value : values) visit(value);
        }
      }
    };
    cluster.RunWell([&](FakeRank r) {
      const size_t rank = static_cast<size_t>(r.rank);
      InitializeFake(r.engine);
      FakeTraining(r.engine, r.rank, 0, 15);  // the lag of step 16 is measured after the save
      r.engine.CatchUp();
      each(r.engine, [&](float& value) { saved[rank].push_back(value); });
      for (const auto& debt : r.engine.Owed().by_unit) {
        owed[rank].insert(owed[rank].end(), debt.begin(), debt.end());
      }
      FakeTraining(r.engine, r.rank, 15, 20, {.weights_seen = &seen_straight[rank]});
      straight[rank] = HashOwned(r.engine);
    });
    cluster.RunWell([&](FakeRank r) {
      const size_t rank = static_cast<size_t>(r.rank);
      size_t at = 0;
      each(r.engine, [&](float& value) { value = saved[rank][at++]; });
      auto from = owed[rank].begin();
      for (const auto& debt : r.engine.Owed().by_unit) {
        std::copy_n(from, debt.size(), debt.begin());
        from += std::ssize(debt);
      }
      r.engine.RefreshWeights(15);
      FakeTraining(r.engine, r.rank, 15, 20, {.weights_seen = &seen_resumed[rank]});
      resumed[rank] = HashOwned(r.engine);
    });
    EXPECT_EQ(resumed, straight) << recipe;
    EXPECT_EQ(seen_resumed, seen_straight) << recipe;
  }
}

// Rows that nobody looks up: no gradient, no moment, no change, though rows of 24 share blocks and
// shards end inside of them. Rows that are looked up once train as those of the plain run do.
TEST(EngineDifference, RowsWithoutGradientsStayWhatTheyAre) {
  const auto touched = [](int64_t row) { return row % 7 == 3; };
  for (const char* recipe : kRecipes) {
    for (const int locals : {1, 2}) {
      FakeCluster cluster = ClusterOf(recipe);
      cluster.locals = locals;
      int64_t start = 0;
      const auto weight = [&](int64_t, int unit, int64_t element) {
        if (unit != 2 || element < start || element >= start + 331 * 24) return 1.0f;
        return touched((element - start) / 24) ? 1.0f : 0.0f;
      };
      start = cluster.PlanOf(0).units[2].places[4].offset;
      std::atomic<int64_t> untouched = 0, moved = 0;
      cluster.RunWell([&](FakeRank r) {
        InitializeFake(r.engine);
        FakeTraining(r.engine, r.rank, 0, 4, {.weight = weight});
        for (const OwnedStretch& owned : r.engine.Owned()) {
          if (owned.unit != 2 || owned.parameter != 4) continue;
          for (size_t i = 0; i < owned.master.size(); ++i) {
            const int64_t at = owned.offset + static_cast<int64_t>(i);
            if (touched(at / 24)) {
              moved += owned.master[i] != InitialValue("l1.vocabulary", at);
              continue;
            }
            ++untouched;
            ASSERT_EQ(owned.master[i], InitialValue("l1.vocabulary", at)) << recipe << " " << at;
            ASSERT_EQ(owned.states[0][i], 0.0f) << recipe << " " << at;
          }
        }
      });
      EXPECT_EQ(untouched, 284 * 24);
      EXPECT_GT(moved, 47 * 24 * 9 / 10) << recipe;
    }
  }
}

// Channels whose gradients are a thousand times the others': without a rotation int4 rounds what
// shares their blocks to nothing.
TEST(EngineDifference, OutlierChannelsDoNotDrownTheirNeighbours) {
  const auto error_of = [](const std::string& recipe) {
    FakeCluster cluster = ClusterOf(recipe);
    cluster.options.max_grad_norm = 0;
    // One channel of 48: every other rotated segment of 32 has one.
    const auto weight = [](int64_t, int unit, int64_t element) {
      return unit == 1 && element < 64 * 48 && element % 48 == 5 ? 30.0f : 1.0f;
    };
    std::mutex mutex;
    double error = 0, signal = 0;
    cluster.RunWell([&](FakeRank r) {
      InitializeFake(r.engine);
      FakePass(r.engine, r.rank, 0, 0, true, {.weight = weight});
      r.engine.Step({.lr = 0});
      const std::lock_guard lock(mutex);
      for (const OwnedStretch& owned : r.engine.Owned()) {
        if (owned.unit != 1 || owned.parameter != 0) continue;
        for (size_t i = 0; i < owned.states[0].size(); ++i) {
          const int64_t at = owned.offset + static_cast<int64_t>(i);
          if (at % 48 == 5) continue;
          double mean = 0;
          for (int rank = 0; rank < 4; ++rank) {
            mean += FakeGradient(InitialValue("l0.a", at), 1, at, rank, 0, 0) / 4.0;
          }
          error += std::pow(owned.states[0][i] / 0.1 - mean, 2);
          signal += mean * mean;
        }
      }
    });
    return error / signal;
  };
  const double plain = error_of("fast_reduce=int8/128, slow_reduce=int4/128");
  const double rotated = error_of("fast_reduce=rot128+int8/128, slow_reduce=rot128+int4/128");
  EXPECT_LT(rotated, 0.5 * plain);
  EXPECT_LT(rotated, 0.2);
}

// Below stage 3 the weights that each rank has are the reference.
TEST(EngineDifference, StagesWithWholeWeightsComputeTheSame) {
  for (const char* recipe : kRecipes) {
    std::vector<std::vector<uint64_t>> owned;
    for (const int stage : {3, 2, 1}) {
      FakeCluster cluster = ClusterOf(recipe);
      cluster.options.stage = stage;
      std::vector<uint64_t>& hashes = owned.emplace_back(4);
      cluster.RunWell([&](FakeRank r) {
        InitializeFake(r.engine);
        FakeTraining(r.engine, r.rank, 0, 5);
        hashes[static_cast<size_t>(r.rank)] = HashOwned(r.engine);
      });
    }
    EXPECT_EQ(owned[1], owned[0]) << recipe;
    EXPECT_EQ(owned[2], owned[0]) << recipe;
  }
}

// Error feedback: what the slow reduce loses in a step is in the next one, so that the sum over
// steps of what arrives is near the sum of what was sent, where each step alone is far off.
TEST(EngineDifference, WithFeedbackTheSumOverStepsArrives) {
  const auto error_of_sum = [](const std::string& recipe) {
    FakeCluster cluster = ClusterOf(recipe, DType::kF32);
    cluster.options.max_grad_norm = 0;
    cluster.options.optimizer = optim::MakeSgd(false);
    constexpr int kSteps = 16;
    std::mutex mutex;
    double error = 0, signal = 0;
    cluster.RunWell([&](FakeRank r) {
      InitializeFake(r.engine);
      // The same gradient in each step, which a code that forgets rounds alike each time.
      for (int64_t step = 0; step < kSteps; ++step) {
        FakePass(r.engine, r.rank, step, 0, true, {.fixed = [&](int unit, int64_t element) {
                   return FakeGradient(0, unit, element, r.rank, 0, 0);
                 }});
        r.engine.Step({.lr = 1});
      }
      const std::lock_guard lock(mutex);
      for (const OwnedStretch& owned : r.engine.Owned()) {
        const UnitLayout& unit = r.engine.plan().units[static_cast<size_t>(owned.unit)];
        const size_t p = static_cast<size_t>(owned.parameter);
        for (size_t i = 0; i < owned.master.size(); ++i) {
          const int64_t at = owned.offset + static_cast<int64_t>(i);
          double mean = 0;
          for (int rank = 0; rank < 4; ++rank) {
            mean += FakeGradient(0, owned.unit, unit.places[p].offset + at, rank, 0, 0) / 4.0;
          }
          const double moved = InitialValue(unit.spec.parameters[p].name, at) - owned.master[i];
          error += std::pow(moved / kSteps - mean, 2);
          signal += mean * mean;
        }
      }
    });
    return error / signal;
  };
  const std::string ternary = "fast_reduce=rot32+int8/128, slow_reduce=rot32+ternary/128/rms1.22";
  const double without = error_of_sum(ternary);
  const double with = error_of_sum(ternary + ", feedback=int8/128");
  EXPECT_LT(with, 0.2 * without);
}

// A step that is skipped, and a load of nothing, leave nothing owed.
TEST(EngineDifference, DebtsAreForgottenWithASkippedStep) {
  FakeCluster cluster = ClusterOf("slow_reduce=ternary/128, feedback=int8/128");
  cluster.RunWell([&](FakeRank r) {
    const auto owes = [&] {
      const Debts debts = r.engine.Owed();
      EXPECT_EQ(debts.by_unit.size(), 5u);
      return std::ranges::any_of(debts.by_unit, [](std::span<std::byte> unit) {
        return std::ranges::any_of(unit, [](std::byte each) { return each != std::byte{0}; });
      });
    };
    InitializeFake(r.engine);
    EXPECT_FALSE(owes());
    FakeTraining(r.engine, r.rank, 0, 2);
    EXPECT_TRUE(owes());
    FakePass(r.engine, r.rank, 2, 0, true,
             {.poison = [](int, int64_t, int) { return std::numeric_limits<float>::quiet_NaN(); }});
    EXPECT_FALSE(r.engine.Step({.lr = 1e-2f}).applied);
    EXPECT_FALSE(owes());
    FakeTraining(r.engine, r.rank, 2, 4);
    for (const OwnedStretch& owned : r.engine.Owned()) {
      for (const float w : owned.master) ASSERT_TRUE(std::isfinite(w));
    }
  });
}

// Debts that were renewed with gradients which nobody saves are not saved either: a run that
// resumes makes those again, and would owe for both.
TEST(EngineDifference, DebtsOfGradientsThatWaitForTheirStepAreNotSaved) {
  FakeCluster cluster = ClusterOf("slow_reduce=ternary/128, feedback=int8/128");
  cluster.options.micro_batches = 2;
  cluster.RunWell([&](FakeRank r) {
    InitializeFake(r.engine);
    const auto saves = [&] { return !r.engine.OwedAfterSteps().layout.empty(); };
    FakePass(r.engine, r.rank, 0, 0, false);
    EXPECT_TRUE(saves());  // this one crossed the fast hop only
    FakePass(r.engine, r.rank, 0, 1, true);
    EXPECT_FALSE(saves());
    r.engine.CatchUp();
    EXPECT_FALSE(saves());
    r.engine.Step({.lr = 0});
    EXPECT_TRUE(saves());
    EXPECT_EQ(r.engine.OwedAfterSteps().layout, r.engine.Owed().layout);
  });
}

// What is owed is of use to who sends the same elements to the same ranks only.
TEST(EngineDifference, DebtsNameTheLayoutThatTheyAreOf) {
  const auto layout_of = [](const std::function<void(FakeCluster&)>& change) {
    FakeCluster cluster = ClusterOf("slow_reduce=ternary/128, feedback=int8/128");
    change(cluster);
    std::string layout;
    cluster.RunWell([&](FakeRank r) {
      if (r.rank == 1) layout = r.engine.Owed().layout;
    });
    return layout;
  };
  const std::string layout = layout_of([](FakeCluster&) {});
  EXPECT_EQ(layout_of([](FakeCluster&) {}), layout);
  EXPECT_NE(layout_of([](FakeCluster& cluster) {
              cluster.machines = {"a", "b", "a", "b"};
            }),
            layout);
  // The same parameters in other units of the same names.
  EXPECT_NE(layout_of([](FakeCluster& cluster) {
              cluster.units[2].parameters.push_back(cluster.units[1].parameters.back());
              cluster.units[1].parameters.pop_back();
            }),
            layout);
}

// A debt is part of a sum: where a step sums up another number of micro-batches, it is forgotten.
TEST(EngineDifference, DebtsAreForgottenWithAnotherNumberOfMicroBatches) {
  FakeCluster cluster = ClusterOf("slow_reduce=ternary/128, feedback=int8/128");
  cluster.options.micro_batches = 0;
  for (const int passes : {2, 1}) {
    std::vector<uint64_t> with_debts(4), without(4);
    for (const bool forget : {false, true}) {
      cluster.RunWell([&](FakeRank r) {
        InitializeFake(r.engine);
        for (int micro = 0; micro < 2; ++micro) FakePass(r.engine, r.rank, 0, micro, micro == 1);
        r.engine.Step({.lr = 0});
        if (forget) {
          for (auto debt : r.engine.Owed().by_unit) std::ranges::fill(debt, std::byte{0});
        }
        for (int micro = 0; micro < passes; ++micro) {
          FakePass(r.engine, r.rank, 1, micro, micro + 1 == passes);
        }
        r.engine.Step({.lr = 0});
        (forget ? without : with_debts)[static_cast<size_t>(r.rank)] = HashOwned(r.engine);
      });
    }
    EXPECT_EQ(with_debts == without, passes == 1) << passes;
  }
}

// Only the fast hop is crossed more often.
TEST(EngineDifference, MicroBatchesCostNothingOnTheSlowLink) {
  int64_t bytes[2] = {};
  for (const int micro_batches : {1, 8}) {
    FakeCluster cluster = ClusterOf("ternary");
    cluster.options.micro_batches = micro_batches;
    std::atomic<int64_t> sent = 0;
    cluster.RunWell([&](FakeRank r) {
      InitializeFake(r.engine);
      FakeTraining(r.engine, r.rank, 0, 3);
      r.engine.Owned();
      sent += r.engine.traffic().slow_bytes();
    });
    bytes[micro_batches == 8] = sent;
  }
  EXPECT_EQ(bytes[0], bytes[1]);
}

}  // namespace
}  // namespace thinwire::zero
