// What all ranks do together, done by one of them alone (#143536 of pytorch, #3250 of accelerate):
// an error on every rank that names the call and the ranks, whatever the others do in its place.
#include <gtest/gtest.h>

#include "thinwire/zero/fake_cluster.h"
#include "thinwire/zero/fake_model.h"

namespace thinwire::zero {
namespace {

using Body = std::function<void(FakeRank)>;

void ExpectHas(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
}

// Errors by rank when rank 0 calls save and the others do `instead`, after steps of training, so
// that passes have programs.
std::vector<Outcome> Alone(const Body& instead, int micro_batches = 1,
                           std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
  FakeCluster cluster{.hosts = 1, .locals = 3};
  cluster.options.micro_batches = micro_batches;
  cluster.options.deadline = deadline;
  return cluster.Run([&](FakeRank r) {
    InitializeFake(r.engine);
    FakeTraining(r.engine, r.rank, 0, 3);
    if (r.rank == 0) {
      r.engine.Meet("save");
      r.engine.MeanOverRanks(1);
    } else {
      instead(r);
    }
  });
}

TEST(EngineAlone, WhileOthersTrainOn) {
  const auto outcomes = Alone([](FakeRank r) { FakeTraining(r.engine, r.rank, 3, 5); });
  for (const Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.peer_error);
    ExpectHas(outcome.error, {"rank 0 wants save", "rank 1 wants a training pass",
                              "rank 2 wants a training pass"});
  }
}

TEST(EngineAlone, WhileOthersTakeAStep) {
  FakeCluster cluster{.hosts = 1, .locals = 2};
  const auto outcomes = cluster.Run([&](FakeRank r) {
    InitializeFake(r.engine);
    FakeTraining(r.engine, r.rank, 0, 3);
    FakePass(r.engine, r.rank, 3, 0, true);
    if (r.rank == 0) {
      r.engine.MeanOverRanks(1);
    } else {
      r.engine.Step({.lr = FakeLr(3)});
    }
  });
  for (const Outcome& outcome : outcomes) {
    ExpectHas(outcome.error, {"rank 0 wants a mean over ranks", "rank 1 wants optimizer step 4"});
  }
}

TEST(EngineAlone, WhileOthersCallSomethingElse) {
  for (const Outcome& outcome : Alone([](FakeRank r) { r.engine.Meet("load"); })) {
    ExpectHas(outcome.error, {"rank 0 wants save", "rank 1 wants load"});
  }
}

TEST(EngineAlone, WhileOthersEnd) {
  const auto start = std::chrono::steady_clock::now();
  const auto outcomes = Alone([](FakeRank) {});
  ExpectHas(outcomes[0].error, {"rank 0 waits in save for rank 1, which has ended its engine"});
  EXPECT_EQ(outcomes[1].error, "");
  EXPECT_EQ(outcomes[2].error, "");
  EXPECT_LT(outcomes[0].at - start, std::chrono::seconds(10));  // not the deadline
}

TEST(EngineAlone, WhileOthersDoNothing) {
  const auto outcomes = Alone(
      [](FakeRank r) {
        while (r.board.FirstFailure().empty()) {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        r.engine.Meet("save");
      },
      1, std::chrono::milliseconds(300));
  for (const Outcome& outcome : outcomes) {
    ExpectHas(outcome.error, {"rank 0 has waited", "in save for rank 1"});
  }
}

// A program has no agreement in the middle of a pass that could tell the others, which wait for
// what the rest of the pass sends: refused before it waits, and the pass goes on.
TEST(EngineAlone, InTheMiddleOfAPass) {
  FakeCluster cluster{.hosts = 1, .locals = 2};
  cluster.RunWell([&](FakeRank r) {
    InitializeFake(r.engine);
    FakeTraining(r.engine, r.rank, 0, 3);
    for (int64_t step = 3; step < 5; ++step) {
      r.engine.BeginPass(PassKind::kEvaluate, true);
      r.engine.Acquire(0);
      if (r.rank == 0) {
        try {
          r.engine.Meet("save");
          ADD_FAILURE();
        } catch (const UsageError& error) {
          ExpectHas(error.what(), {"rank 0: save between a forward and its backward"});
        }
        EXPECT_THROW(r.engine.MeanOverRanks(1), UsageError);
        EXPECT_THROW(r.engine.Owned(), UsageError);
      }
      r.engine.Release(0);
      r.engine.EndPass();
    }
    FakeTraining(r.engine, r.rank, 3, 5);
    EXPECT_EQ(r.engine.MeanOverRanks(r.rank), 0.5);
  });
}

}  // namespace
}  // namespace thinwire::zero
