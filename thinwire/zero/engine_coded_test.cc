// Entropy coding changes how many bytes travel, and nothing else.
#include <gtest/gtest.h>

#include "thinwire/zero/fake_cluster.h"

namespace thinwire::zero {
namespace {

constexpr const char* kFastToo =
    "slow_gather=int8/128/coded, fast_gather=int8/64/coded, fast_reduce=int8/128/coded, "
    "slow_reduce=int4/128/coded, keep=values";
constexpr const char* kFastTooPlain =
    "slow_gather=int8/128, fast_gather=int8/64, fast_reduce=int8/128, slow_reduce=int4/128, "
    "keep=values";

constexpr const char* kOwes =
    "slow_gather=ternary/128, fast_reduce=rot128+int8/128, slow_reduce=rot128+ternary/128/rms1.22, "
    "keep=reference, feedback=int8/128";
constexpr const char* kOwesCoded =
    "slow_gather=ternary/128/coded, fast_reduce=rot128+int8/128, "
    "slow_reduce=rot128+ternary/128/rms1.22/coded, keep=reference, feedback=int8/128";

struct Case {
  const char* plain;
  const char* coded;
  int hosts, locals;
  int stage = 3;
  int64_t rows = 300;  // of the largest matrix
};

// What the ranks came to.
struct Result {
  std::vector<uint64_t> owned;              // by rank
  std::vector<std::vector<uint64_t>> seen;  // by rank: the weights at each use
  std::vector<int64_t> slow_bytes;          // by rank
  std::vector<int64_t> last_slow_bytes;     // the same, of the last step
};

FakeCluster ClusterOf(const Case& c, bool coded) {
  FakeCluster cluster{.hosts = c.hosts, .locals = c.locals};
  cluster.options.recipe = coded ? c.coded : c.plain;
  cluster.options.wire = cluster.options.compute = DType::kBF16;
  cluster.options.stage = c.stage;
  cluster.options.chunk_bytes = 32 << 10;
  cluster.options.checksum = true;
  // Large enough for a gain, in several chunks and with pieces of different sizes.
  cluster.units[1].parameters.push_back({"l0.large", {c.rows, 256}});
  cluster.units[2].parameters.push_back({"l1.large", {64, 300}});
  const std::vector<Isa> isas = SupportedIsas();
  cluster.context = [isas](int rank) {
    return ExecContext{.isa = isas[static_cast<size_t>(rank) % isas.size()]};
  };
  return cluster;
}

// Gradients whose codes need more room in some steps than in others.
FakeTwist Twist(std::vector<uint64_t>& seen) {
  FakeTwist twist{.weights_seen = &seen};
  twist.weight = [](int64_t step, int, int64_t element) {
    return element % 5 == 0 || step == 3 ? 1.0f : step % 2 == 0 ? 0.02f : 0.1f;
  };
  return twist;
}

Result RunOf(const Case& c, bool coded) {
  FakeCluster cluster = ClusterOf(c, coded);
  const size_t world = static_cast<size_t>(c.hosts * c.locals);
  Result result{std::vector<uint64_t>(world), std::vector<std::vector<uint64_t>>(world),
                std::vector<int64_t>(world), std::vector<int64_t>(world)};
  cluster.RunWell([&](FakeRank r) {
    const size_t i = static_cast<size_t>(r.rank);
    const FakeTwist twist = Twist(result.seen[i]);
    InitializeFake(r.engine);
    FakeTraining(r.engine, r.rank, 0, 3, twist);
    // Between two steps: evaluation, a pass that is given up, all weights anew.
    FakeEvaluation(r.engine, result.seen[i]);
    r.engine.BeginPass(PassKind::kTrain, true);
    r.engine.Acquire(0);
    r.engine.Release(0);
    r.engine.AbandonPass();
    r.engine.RefreshWeights(r.engine.progress());
    FakeTraining(r.engine, r.rank, 3, 5, twist);
    FakeEvaluation(r.engine, result.seen[i]);  // what is pushed has arrived
    const int64_t before = r.engine.traffic().slow_bytes();
    FakeTraining(r.engine, r.rank, 5, 6, twist);
    FakeEvaluation(r.engine, result.seen[i]);
    result.slow_bytes[i] = r.engine.traffic().slow_bytes();
    result.last_slow_bytes[i] = result.slow_bytes[i] - before;
    result.owned[i] = HashOwned(r.engine);
  });
  return result;
}

class EngineCoded : public testing::TestWithParam<Case> {};

TEST_P(EngineCoded, EqualsThePlainRecipeInFewerBytes) {
  const Result plain = RunOf(GetParam(), false), coded = RunOf(GetParam(), true);
  EXPECT_EQ(coded.owned, plain.owned);
  EXPECT_EQ(coded.seen, plain.seen);
  for (size_t rank = 0; rank < plain.owned.size(); ++rank) {
    EXPECT_LT(coded.slow_bytes[rank], plain.slow_bytes[rank]) << rank;
    EXPECT_LT(coded.last_slow_bytes[rank], plain.last_slow_bytes[rank]) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(All, EngineCoded,
                         testing::Values(Case{"zero++", "zero++ + coded", 2, 2},
                                         Case{"delta4", "delta4+coded", 2, 2, 2},
                                         Case{"delta-ternary", "delta-ternary+coded", 3, 1},
                                         Case{kOwes, kOwesCoded, 2, 1, 3, 800},
                                         Case{"qwz+qgz", "qwz+qgz+coded", 2, 1},
                                         Case{kFastTooPlain, kFastToo, 2, 2}),
                         [](const auto& test) { return StrCat("case", test.index); });

// Uses of one exchange follow one another without another in between: more are in flight than
// messages have announced their sizes.
TEST(EngineCoded, OneUnitGatheredAgainAndAgain) {
  std::vector<uint64_t> expected;
  for (const char* recipe : {"qwz", "qwz+coded"}) {
    FakeCluster cluster = ClusterOf({recipe, recipe, 2, 1}, false);
    cluster.units = {{"one", {{"one.w", {300, 300}}}}};
    std::vector<std::vector<uint64_t>> seen(2);
    cluster.RunWell([&](FakeRank r) {
      InitializeFake(r.engine);
      for (int pass = 0; pass < 12; ++pass) {
        FakeEvaluation(r.engine, seen[static_cast<size_t>(r.rank)]);
      }
      FakeTraining(r.engine, r.rank, 0, 3);
      FakeEvaluation(r.engine, seen[static_cast<size_t>(r.rank)]);
    });
    EXPECT_EQ(seen[0], seen[1]);
    if (expected.empty()) expected = seen[0];
    EXPECT_EQ(seen[0], expected);
  }
}

}  // namespace
}  // namespace thinwire::zero
