// Weights outside of passes: read whole on every rank, and edited by their owners.
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "thinwire/zero/fake_cluster.h"

namespace thinwire::zero {
namespace {

// By parameter name, put together from what every rank owns.
using Whole = std::map<std::string, std::vector<float>>;

TEST(EngineParameter, EveryRankReadsWhatTheOwnersHave) {
  for (const auto& [hosts, locals] :
       std::vector<std::pair<int, int>>{{1, 1}, {1, 4}, {2, 1}, {2, 2}, {3, 2}, {2, 3}, {4, 2}}) {
    for (const int stage : {3, 2}) {
      FakeCluster cluster{.hosts = hosts, .locals = locals};
      cluster.options.recipe = "zero++";
      cluster.options.stage = stage;
      cluster.units[3].trainable = false;
      cluster.units[1].parameters.push_back({"long", {40, 256}});  // several chunks of each stretch
      std::mutex mutex;
      Whole owned;
      std::vector<Whole> read(static_cast<size_t>(hosts * locals));
      cluster.RunWell([&](FakeRank r) {
        InitializeFake(r.engine);
        FakeTraining(r.engine, r.rank, 0, 2);
        const auto name_of = [&](int unit, int parameter) {
          return r.engine.plan()
              .units[static_cast<size_t>(unit)]
              .spec.parameters[static_cast<size_t>(parameter)]
              .name;
        };
        // While the new weights are still being pushed.
        for (int u = 0; u < 5; ++u) {
          const auto& places = r.engine.plan().units[static_cast<size_t>(u)].places;
          for (int p = 0; p < static_cast<int>(places.size()); ++p) {
            read[static_cast<size_t>(r.rank)][name_of(u, p)] = r.engine.ReadParameter(u, p);
            EXPECT_EQ(static_cast<int64_t>(read[static_cast<size_t>(r.rank)][name_of(u, p)].size()),
                      places[static_cast<size_t>(p)].numel);
          }
        }
        FakeTraining(r.engine, r.rank, 2, 3);
        FakePass(r.engine, r.rank, 3, 0, true);
        const std::lock_guard lock(mutex);
        for (const OwnedStretch& stretch : r.engine.Owned()) {
          std::vector<float>& whole = owned[name_of(stretch.unit, stretch.parameter)];
          const std::vector<float>& all =
              read[static_cast<size_t>(r.rank)][name_of(stretch.unit, stretch.parameter)];
          whole.resize(all.size());
          std::ranges::copy(stretch.master, whole.begin() + stretch.offset);
        }
      });
      for (const Whole& whole : read) EXPECT_TRUE(whole == read[0]) << hosts << "x" << locals;
      // A frozen one is still what it was; the others were read before the last step.
      EXPECT_EQ(read[0]["l2.only_vector"], owned["l2.only_vector"]);
      EXPECT_NE(read[0]["l0.a"], owned["l0.a"]);
      EXPECT_EQ(read[0]["l1.empty"].size(), 0u);
    }
  }
}

TEST(EngineParameter, ReadsTheBitsOfTheMasters) {
  FakeCluster cluster{.hosts = 3, .locals = 2};
  cluster.options.wire = cluster.options.compute = DType::kBF16;
  cluster.RunWell([](FakeRank r) {
    InitializeFake(r.engine);
    for (int u = 0; u < 5; ++u) {
      const UnitSpec& spec = r.engine.plan().units[static_cast<size_t>(u)].spec;
      for (size_t p = 0; p < spec.parameters.size(); ++p) {
        const std::vector<float> values = r.engine.ReadParameter(u, static_cast<int>(p));
        for (size_t i = 0; i < values.size(); ++i) {
          ASSERT_EQ(values[i], InitialValue(spec.parameters[p].name, static_cast<int64_t>(i)));
        }
      }
    }
  });
}

TEST(EngineParameter, RanksMustWantTheSameOne) {
  FakeCluster cluster;
  for (const Outcome& outcome : cluster.Run([](FakeRank r) {
         InitializeFake(r.engine);
         r.engine.ReadParameter(1, r.rank == 2 ? 1 : 0);
       })) {
    EXPECT_NE(outcome.error.find("rank 1 wants the values of l0.a; rank 2 wants the values of "
                                 "l0.norm"),
              std::string::npos)
        << outcome.error;
  }
}

TEST(EngineParameter, ADeadOwnerEndsTheOthers) {
  FakeCluster cluster;
  cluster.units[1].parameters[0].shape = {512, 512};
  const auto outcomes = cluster.Run([](FakeRank r) {
    InitializeFake(r.engine);
    for (int i = 0; i < 3; ++i) r.engine.ReadParameter(1, 0);
    if (r.rank == 1) throw std::runtime_error("out of memory");
    r.engine.ReadParameter(1, 0);
  });
  for (const size_t rank : {size_t{0}, size_t{2}, size_t{3}}) {
    EXPECT_NE(outcomes[rank].error.find("rank 1: left"), std::string::npos) << outcomes[rank].error;
  }
}

// An edit between the micro-batches of a step: every rank computes with it at once, whatever the
// recipe keeps, and the gradients from before it still count (#7606, #7164).
TEST(EngineParameter, AnEditReachesAllRanksAndLosesNoMicroBatch) {
  for (const std::string& recipe : RecipeNames()) {
    for (const int stage : {1, 2, 3}) {
      FakeCluster cluster;
      cluster.options.recipe = recipe;
      cluster.options.stage = stage;
      cluster.options.micro_batches = 2;
      std::vector<std::vector<uint64_t>> seen(4);
      cluster.RunWell([&](FakeRank r) {
        auto& hashes = seen[static_cast<size_t>(r.rank)];
        InitializeFake(r.engine);
        FakeTraining(r.engine, r.rank, 0, 1);
        FakePass(r.engine, r.rank, 1, 0, false, {.gradient = 0.25f});
        FakeEvaluation(r.engine, hashes);
        for (const OwnedStretch& owned : r.engine.Owned()) {
          if (owned.unit != 1) continue;
          for (float& w : owned.master) w += 1.0f;
        }
        r.engine.RefreshWeights();
        FakeEvaluation(r.engine, hashes);
        // Full values bring weights that were behind their masters up to them.
        const bool differences = r.engine.plan().recipe.sends_differences();
        for (size_t u = 0; u < 5; ++u) {
          if (u == 1 || !differences) {
            EXPECT_EQ(hashes[u] == hashes[5 + u], u != 1);
          }
        }
        FakePass(r.engine, r.rank, 1, 1, true, {.gradient = 0.25f});
        const StepResult result = r.engine.Step({.lr = 0});
        EXPECT_EQ(result.step, 2);
        const double norm = 0.25 * std::sqrt(static_cast<double>(r.engine.plan().parameters));
        EXPECT_NEAR(result.grad_norm, norm, differences ? 0.1 * norm : 1e-6);
      });
      for (const auto& hashes : seen) EXPECT_EQ(hashes, seen[0]) << recipe << " stage " << stage;
    }
  }
}

}  // namespace
}  // namespace thinwire::zero
