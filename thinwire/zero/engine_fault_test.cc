// Disagreement, death and silence: every rank ends with an error in time, and nothing hangs.
#include <gtest/gtest.h>

#include <atomic>

#include "thinwire/zero/fake_cluster.h"

namespace thinwire::zero {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using Kind = transport::Fault::Kind;

// Every rank failed, and each text names all of `words`.
void ExpectAllSay(const std::vector<Outcome>& outcomes, const std::vector<std::string>& words) {
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_FALSE(outcomes[rank].error.empty()) << "rank " << rank << " ended well";
    for (const std::string& word : words) {
      EXPECT_NE(outcomes[rank].error.find(word), std::string::npos)
          << "rank " << rank << " says nothing of \"" << word << "\": " << outcomes[rank].error;
    }
  }
}

void Acquire(Engine& engine, int unit) {
  engine.Acquire(unit);
  engine.Release(unit);
}

TEST(EngineDisagreement, AnotherUnitInTheFirstPass) {
  FakeCluster cluster;
  const auto outcomes = cluster.Run([](FakeRank r) {
    InitializeFake(r.engine);
    r.engine.BeginPass(PassKind::kTrain, true);
    Acquire(r.engine, 0);
    Acquire(r.engine, r.rank == 1 ? 2 : 1);
  });
  ExpectAllSay(outcomes, {"rank 0 wants gather of layer0", "rank 1 wants gather of layer1"});
  for (const Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.peer_error);
    EXPECT_EQ(outcome.error.find("seen here"), std::string::npos) << outcome.error;
  }
}

TEST(EngineDisagreement, RecipeAndSettings) {
  struct Change {
    std::function<void(EngineOptions&)> apply;
    std::string word;
  };
  const std::vector<Change> changes = {
      {[](EngineOptions& o) { o.recipe = "hpz"; }, "rank 1 wants a recipe with keep=values"},
      {[](EngineOptions& o) {
         o.recipe =
             "slow_gather=fp32, fast_gather=fp32, fast_reduce=fp32, slow_reduce=int4/64/searched";
       },
       "rank 1 wants a recipe with slow_reduce=int4/64/searched"},
      {[](EngineOptions& o) { o.checksum = true; }, "rank 1 wants messages with a checksum"},
      {[](EngineOptions& o) { o.loss_scale.fixed = 8; }, "loss scale: fixed 8, "},
      {[](EngineOptions& o) { o.loss_scale.initial = 128; }, "initial 128, "},
      {[](EngineOptions& o) { o.loss_scale.least = 0.5; }, "least 0.5"},
      {[](EngineOptions& o) { o.loss_scale.window = 7; }, "rank 1 wants loss scale: window 7"},
      {[](EngineOptions& o) { o.loss_scale.hysteresis = 2; }, "hysteresis 2"},
      {[](EngineOptions& o) { o.loss_scale.each_good_step = true; }, "from each good step"},
      {[](EngineOptions& o) { o.micro_batches = 3; }, "3 micro-batches"},
      {[](EngineOptions& o) { o.chunk_bytes = 8192; }, "chunk_bytes 8192"},
      {[](EngineOptions& o) { o.prefetch = 1; }, "prefetch 1"},
      {[](EngineOptions& o) { o.wire = DType::kBF16; }, "bf16 on the wire"},
      {[](EngineOptions& o) { o.compute = DType::kF16; }, "fp16, "},
      {[](EngineOptions& o) { o.max_grad_norm = 0.25f; }, "max_grad_norm 0.25"},
      {[](EngineOptions& o) { o.groups[0].beta2 = 0.5f; }, "beta2 0.5"},
  };
  for (const Change& change : changes) {
    FakeCluster cluster;
    cluster.change = [&](int rank, EngineOptions& options, std::vector<UnitSpec>&) {
      if (rank == 1) change.apply(options);
    };
    ExpectAllSay(cluster.Run([](FakeRank) {}), {"rank 0 wants", "rank 1 wants", change.word});
  }
}

// However a recipe is spelled, it is the same on all ranks when its codecs are.
TEST(EngineDisagreement, NotOnTheSpellingOfARecipe) {
  FakeCluster cluster;
  cluster.options.recipe = "zero++";
  cluster.change = [](int rank, EngineOptions& options, std::vector<UnitSpec>&) {
    const char* spellings[] = {"zero++", " qgz+hpz + qwz",
                               "slow_gather=int8/128, fast_gather=codes, fast_reduce=int4/128, "
                               "slow_reduce=int4/128, keep=codes",
                               "qwz+hpz+qgz"};
    options.recipe = spellings[rank];
  };
  cluster.RunWell([](FakeRank) {});
}

TEST(EngineDisagreement, RanksThatResumeWithOtherCountsOfTheLossScale) {
  for (const optim::LossScale& other :
       {optim::LossScale{1024, 6, 1}, optim::LossScale{1024, 5, 0}, optim::LossScale{512, 5, 1}}) {
    FakeCluster cluster;
    cluster.options.wire = cluster.options.compute = DType::kF16;
    ExpectAllSay(cluster.Run([&](FakeRank r) {
      r.engine.RefreshWeights(OptimizerProgress{
          .steps = 3, .loss_scale = r.rank == 1 ? other : optim::LossScale{1024, 5, 1}});
    }),
                 {"rank 0 wants weights of step 3, loss scale 1024 after 5 good and 1 bad steps",
                  StrCat("rank 1 wants weights of step 3, loss scale ", other.scale, " after ",
                         other.good_steps, " good and ", other.bad_steps, " bad steps")});
  }
}

TEST(EngineDisagreement, ShapesNameTheUnit) {
  FakeCluster cluster;
  cluster.change = [](int rank, EngineOptions&, std::vector<UnitSpec>& units) {
    if (rank == 1) std::swap(units[2].parameters[0].shape[0], units[2].parameters[0].shape[1]);
  };
  ExpectAllSay(cluster.Run([](FakeRank) {}), {"rank 1 wants unit layer1", "fingerprint"});
}

TEST(EngineDisagreement, AnotherOrderLater) {
  for (const char* recipe : {"zero3", "hpz", "zero++"}) {
    FakeCluster cluster;
    cluster.options.recipe = recipe;
    const auto outcomes = cluster.Run([](FakeRank r) {
      InitializeFake(r.engine);
      FakeTraining(r.engine, r.rank, 0, 2);
      if (r.rank == 1) {
        r.engine.BeginPass(PassKind::kTrain, true);
        for (const int unit : {0, 2, 1}) Acquire(r.engine, unit);
        Acquire(r.engine, 3);
      }
      FakeTraining(r.engine, r.rank, 2, 4);
    });
    ExpectAllSay(outcomes, {"rank 1 wants a gather of layer2", "step 3"});
  }
}

TEST(EngineDisagreement, AStepWhileOthersDoAnotherMicroBatch) {
  FakeCluster cluster;
  cluster.options.micro_batches = 2;
  const auto outcomes = cluster.Run([](FakeRank r) {
    InitializeFake(r.engine);
    FakeTraining(r.engine, r.rank, 0, 1);
    FakePass(r.engine, r.rank, 1, 0, false);
    if (r.rank == 1) r.engine.Step({.lr = 1});
    FakePass(r.engine, r.rank, 1, 1, true);
  });
  ExpectAllSay(outcomes, {"training.micro_batches is 2"});
  EXPECT_NE(outcomes[0].error.find("rank 1"), std::string::npos) << outcomes[0].error;
}

TEST(EngineDisagreement, AnEvaluationWhileOthersTrain) {
  FakeCluster cluster;
  ExpectAllSay(cluster.Run([](FakeRank r) {
    InitializeFake(r.engine);
    FakeTraining(r.engine, r.rank, 0, 2);
    r.engine.BeginPass(r.rank == 1 ? PassKind::kEvaluate : PassKind::kTrain, true);
  }),
               {"rank 0 wants a training pass of step 3", "rank 1 wants an evaluation pass"});
}

TEST(EngineDisagreement, AnotherLearningRate) {
  FakeCluster cluster;
  ExpectAllSay(cluster.Run([](FakeRank r) {
    InitializeFake(r.engine);
    FakePass(r.engine, r.rank, 0, 0, true);
    r.engine.Step({.lr = r.rank == 1 ? 0.5f : 0.25f});
  }),
               {"rank 1 wants optimizer step 1 at lr 0.5"});
}

TEST(EngineMisuse, IsAnErrorThatSaysWhatIsWrong) {
  struct Misuse {
    std::function<void(Engine&)> body;
    std::string word;
  };
  const std::vector<Misuse> misuses = {
      {[](Engine& e) { e.BeginPass(PassKind::kTrain, false); }, "training.micro_batches"},
      {[](Engine& e) { e.Step({}); }, "a step after 0 training passes"},
      {[](Engine& e) {
         e.BeginPass(PassKind::kEvaluate, true);
         e.Acquire(0);
         e.EndPass();
       },
       "embed is still held"},
      {[](Engine& e) {
         e.BeginPass(PassKind::kTrain, true);
         e.GradientBuffer(1);
         e.ReduceGradients(1);
         e.GradientBuffer(1);
         e.ReduceGradients(1);
       },
       "layer0 are reduced twice"},
      {[](Engine& e) {
         FakePass(e, 0, 0, 0, true);
         FakePass(e, 0, 0, 0, true);
       },
       "training.micro_batches"},
      {[](Engine& e) {
         e.BeginPass(PassKind::kTrain, true);
         for (int u = 0; u < 4; ++u) e.Acquire(u);
       },
       "raise parallel.prefetch"},
      {[](Engine& e) {
         e.BeginPass(PassKind::kTrain, true);
         e.Acquire(99);
       },
       "unit 99"},
      {[](Engine& e) {
         e.BeginPass(PassKind::kTrain, true);
         e.ReduceGradients(0);
       },
       "gradient buffer"},
      {[](Engine& e) {
         e.BeginPass(PassKind::kEvaluate, true);
         e.GradientBuffer(0);
       },
       "outside a training pass"},
      {[](Engine& e) { e.Acquire(0); }, "outside a pass"},
  };
  for (const Misuse& misuse : misuses) {
    FakeCluster cluster{.hosts = 1, .locals = 1};
    ExpectAllSay(cluster.Run([&](FakeRank r) {
      InitializeFake(r.engine);
      misuse.body(r.engine);
    }),
                 {misuse.word});
  }
}

// A user's own error, in the middle of a pass or between passes: nobody waits for that rank.
TEST(EngineDeath, ARankThatThrows) {
  for (const int where : {0, 1, 2, 3, 4}) {
    FakeCluster cluster;
    cluster.options.recipe = where % 2 == 0 ? "hpz" : "zero3";
    const auto start = Clock::now();
    const auto outcomes = cluster.Run([&](FakeRank r) {
      InitializeFake(r.engine);
      FakeTraining(r.engine, r.rank, 0, where == 3 ? 0 : 2);
      const auto burst = [&](bool now) {
        if (now && r.rank == 1) throw std::runtime_error("out of data");
      };
      burst(where == 0);
      r.engine.BeginPass(PassKind::kTrain, true);
      Acquire(r.engine, 0);
      r.engine.Acquire(1);
      burst(where == 1 || where == 3);
      r.engine.Release(1);
      for (int u = 2; u < 5; ++u) Acquire(r.engine, u);
      if (where == 2) {
        Acquire(r.engine, 4);
        r.engine.GradientBuffer(4);
        burst(true);
        r.engine.ReduceGradients(4);
      }
      burst(where == 4);
      r.engine.EndPass();
      r.engine.MeanOverRanks(0);
    });
    EXPECT_EQ(outcomes[1].error, "out of data");
    for (const size_t rank : {size_t{0}, size_t{2}, size_t{3}}) {
      EXPECT_TRUE(outcomes[rank].peer_error);
      EXPECT_NE(outcomes[rank].error.find("rank 1: left"), std::string::npos)
          << where << ": " << outcomes[rank].error;
    }
    EXPECT_LE(Clock::now() - start, milliseconds(10'000)) << where;  // the deadline is 20 s
  }
}

// The same without an error: the engine waits for nothing that only the rest of the pass starts.
TEST(EngineDeath, ARankThatLeavesInTheMiddleOfAPass) {
  for (const int64_t steps : {0, 2}) {
    FakeCluster cluster;
    const auto outcomes = cluster.Run([&](FakeRank r) {
      InitializeFake(r.engine);
      FakeTraining(r.engine, r.rank, 0, steps);
      r.engine.BeginPass(PassKind::kTrain, true);
      Acquire(r.engine, 0);
      if (r.rank == 1) return;
      for (int u = 1; u < 5; ++u) Acquire(r.engine, u);
      r.engine.EndPass();
      r.engine.MeanOverRanks(0);
    });
    EXPECT_EQ(outcomes[1].error, "");
    for (const size_t rank : {size_t{0}, size_t{2}, size_t{3}}) {
      EXPECT_NE(outcomes[rank].error.find("rank 1: left in the middle"), std::string::npos)
          << outcomes[rank].error;
    }
  }
}

// All ranks must end with an error, and those other than the faulty one with one that names it.
void ExpectAllFail(const std::vector<Outcome>& outcomes, int64_t message) {
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_FALSE(outcomes[rank].error.empty()) << "message " << message << ", rank " << rank;
    EXPECT_NE(outcomes[rank].error.find("rank 1"), std::string::npos)
        << "message " << message << ": " << outcomes[rank].error;
  }
}

// The evaluation at the end needs all messages of the last step.
void TwoSteps(FakeRank r) {
  InitializeFake(r.engine);
  FakeTraining(r.engine, r.rank, 0, 2);
  r.engine.BeginPass(PassKind::kEvaluate, true);
  for (int u = 0; u < 5; ++u) Acquire(r.engine, u);
  r.engine.EndPass();
  r.engine.MeanOverRanks(0);
}

class EngineDeathOf : public testing::TestWithParam<std::string> {
 protected:
  FakeCluster Cluster() const {
    FakeCluster cluster;
    cluster.options.recipe = GetParam();
    cluster.options.chunk_bytes = 1 << 20;
    return cluster;
  }
};

TEST_P(EngineDeathOf, TheNthMessageFails) {
  FakeCluster cluster = Cluster();
  cluster.RunWell(TwoSteps);
  const int64_t messages = cluster.posted;
  ASSERT_GT(messages, 40);
  for (const Kind kind : {Kind::kFail, Kind::kFailOnce}) {
    for (int64_t n = 1; n <= messages; n += n < 8 ? 1 : 11) {
      cluster.bulk_fault = {.kind = kind, .message = n};
      const auto outcomes = cluster.Run(TwoSteps);
      ExpectAllFail(outcomes, n);
      if (HasFailure()) return;
    }
  }
}

TEST_P(EngineDeathOf, TheNthControlMessageFails) {
  FakeCluster cluster = Cluster();
  cluster.RunWell(TwoSteps);
  const int64_t messages = cluster.posted_control;
  ASSERT_GT(messages, 100);
  for (int64_t n = 1; n <= messages; n += n < 4 ? 1 : 17) {
    cluster.control_fault = {.kind = Kind::kFailOnce, .message = n};
    ExpectAllFail(cluster.Run(TwoSteps), n);
    if (HasFailure()) return;
  }
}

// A rank that is stopped: its messages stall and its heartbeat stands still.
TEST_P(EngineDeathOf, AStoppedRankIsLostWithinTheDeadline) {
  FakeCluster cluster = Cluster();
  cluster.RunWell(TwoSteps);
  const int64_t messages = cluster.posted;
  cluster.options.deadline = milliseconds(600);
  const auto limit = cluster.options.deadline * 6 / 5;
  for (const int64_t n : {messages / 7, messages - 3}) {
    cluster.bulk_fault = {.kind = Kind::kStall, .message = n};
    // A busy machine runs threads late, which only ever adds: the best of a few attempts counts.
    Clock::duration best = Clock::duration::max();
    for (int attempt = 0; attempt < 4 && best > limit; ++attempt) {
      std::atomic<Clock::rep> frozen{0};
      const auto outcomes = cluster.Run([&](FakeRank r) {
        if (r.rank == 1) {
          frozen = Clock::now().time_since_epoch().count();
          r.board.Freeze(1);
        }
        TwoSteps(r);
      });
      ExpectAllFail(outcomes, n);
      Clock::duration slowest{0};
      for (const size_t rank : {size_t{0}, size_t{2}, size_t{3}}) {
        slowest = std::max(slowest,
                           outcomes[rank].at.time_since_epoch() - Clock::duration(frozen.load()));
        EXPECT_NE(outcomes[rank].error.find("rank 1 has shown no sign of life"), std::string::npos)
            << outcomes[rank].error;
      }
      best = std::min(best, slowest);
    }
    EXPECT_LE(best, limit);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EngineDeathOf, testing::Values("zero3", "hpz", "zero++"));

// One flipped bit of rank 1's on its way, on either hop: with a checksum all ranks end and name the
// sender, without one nobody can tell.
TEST(EngineDeath, ADamagedMessageIsFoundByItsChecksum) {
  for (const char* recipe : {"zero3", "zero++"}) {
    FakeCluster cluster;
    cluster.options.recipe = recipe;
    cluster.options.chunk_bytes = 1 << 20;
    cluster.RunWell(TwoSteps);
    const int64_t messages = cluster.posted;
    bool slow = false, fast = false;
    for (int64_t n = 1; n < messages - 8; n += 9) {
      cluster.bulk_fault = {.kind = Kind::kDamage, .message = n};
      cluster.options.checksum = true;
      const auto outcomes = cluster.Run(TwoSteps);
      ExpectAllSay(outcomes, {"a message of rank 1 arrived damaged"});
      slow = slow || outcomes[0].error.find("slow ") != std::string::npos;
      fast = fast || outcomes[0].error.find("fast ") != std::string::npos;
      if (HasFailure()) return;
    }
    EXPECT_TRUE(slow && fast) << recipe;
    cluster.options.checksum = false;
    for (const Outcome& outcome : cluster.Run(TwoSteps)) {
      EXPECT_EQ(outcome.error.find("damaged"), std::string::npos) << outcome.error;
    }
  }
}

// A rank that ends its run early, without an error: the others end within the deadline.
TEST(EngineDeath, ARankThatLeavesEarly) {
  FakeCluster cluster;
  cluster.options.deadline = milliseconds(400);
  const auto outcomes = cluster.Run([](FakeRank r) {
    InitializeFake(r.engine);
    FakeTraining(r.engine, r.rank, 0, r.rank == 1 ? 2 : 3);
  });
  EXPECT_EQ(outcomes[1].error, "");
  for (const size_t rank : {size_t{0}, size_t{2}, size_t{3}}) {
    EXPECT_NE(outcomes[rank].error.find("rank 1"), std::string::npos) << outcomes[rank].error;
  }
}

}  // namespace
}  // namespace thinwire::zero
