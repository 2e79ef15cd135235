// Bytes and messages on the links against the plan, on a model of realistic proportions.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "thinwire/zero/fake_cluster.h"
#include "thinwire/zero/predicted_traffic.h"

namespace thinwire::zero {
namespace {

// 0.7 million parameters: units of at least 100 000, norms of 256.
std::vector<UnitSpec> Model() {
  std::vector<UnitSpec> units{{"embed", {{"embed", {500, 256}}}, false}};
  for (int i = 0; i < 3; ++i) {
    const std::string name = StrCat("layers.", i);
    units.push_back(
        {name,
         {{name + ".norm", {256}}, {name + ".qkv", {384, 256}}, {name + ".down", {256, 192}}}});
  }
  units.push_back({"head", {{"norm", {256}}, {"head", {500, 256}}}});
  return units;
}

// A pass that allocates nothing and computes next to nothing.
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
    if (unit.spec.weights_in_backward) {
      engine.Acquire(u);
      engine.Release(u);
    }
    if (!unit.spec.trainable) continue;
    std::memset(engine.GradientBuffer(u), 0x11, static_cast<size_t>(unit.flat_bytes()));
    engine.ReduceGradients(u);
  }
  engine.EndPass();
}

struct Case {
  int hosts, locals;
  std::string recipe;
  int micro_batches;
  int prefetch;
  bool frozen = false;  // the embedding and the first two blocks
  int stage = 3;
};

class EngineTraffic : public testing::TestWithParam<Case> {};

void ExpectGrowth(const Traffic& before, const Traffic& after, int steps, const Traffic& of_one) {
  for (size_t h = 0; h < kHops; ++h) {
    EXPECT_EQ(after.bytes[h] - before.bytes[h], steps * of_one.bytes[h]) << h;
    EXPECT_EQ(after.messages[h] - before.messages[h], steps * of_one.messages[h]) << h;
    EXPECT_EQ(after.exchanges[h] - before.exchanges[h], steps * of_one.exchanges[h]) << h;
    EXPECT_EQ(after.seconds[h] > before.seconds[h], of_one.exchanges[h] > 0) << h;
  }
}

TEST_P(EngineTraffic, IsWhatThePlanSaysAndAtMostTheFormula) {
  const Case c = GetParam();
  FakeCluster cluster{.hosts = c.hosts, .locals = c.locals};
  cluster.units = Model();
  for (size_t u = 0; u < 3; ++u) cluster.units[u].trainable = !c.frozen;
  cluster.options.recipe = c.recipe;
  cluster.options.stage = c.stage;
  cluster.options.micro_batches = c.micro_batches;
  cluster.options.prefetch = c.prefetch;
  cluster.options.wire = cluster.options.compute = DType::kBF16;
  cluster.options.chunk_bytes = 32 << 10;
  constexpr int kSteps = 3;
  const int world = c.hosts * c.locals;
  std::vector<std::atomic<int64_t>> slow_bytes_of_host(static_cast<size_t>(c.hosts));
  cluster.RunWell([&](FakeRank r) {
    const comm::Topology& topology = r.engine.plan().topology;
    // What the transport gave to ranks on other hosts.
    const auto to_other_hosts = [&] {
      transport::MessageCount count;
      for (int peer = 0; peer < world; ++peer) {
        if (peer / c.locals == topology.host()) continue;
        count.bytes += r.bulk.sent_to(peer).bytes;
        count.messages += r.bulk.sent_to(peer).messages;
      }
      return count;
    };
    const auto step = [&] {
      for (int micro = 0; micro < c.micro_batches; ++micro) {
        LeanPass(r.engine, PassKind::kTrain, micro + 1 == c.micro_batches);
      }
      // Weights that stay are not sent again for an evaluation.
      if (c.stage < 3) LeanPass(r.engine, PassKind::kEvaluate, true);
      r.engine.Step({.lr = 1e-3f});
      r.engine.Owned();  // waits for the slow hop of the pushes
      if (c.stage < 3) LeanPass(r.engine, PassKind::kEvaluate, true);  // and for the fast one
    };
    InitializeFake(r.engine);
    step();
    const Traffic before = r.engine.traffic();
    const transport::MessageCount slow_before = to_other_hosts(), all_before = r.bulk.sent();
    for (int i = 0; i < kSteps; ++i) step();
    const Traffic after = r.engine.traffic();
    const Traffic expected = PredictTraffic(r.engine.plan(), c.micro_batches);
    ExpectGrowth(before, after, kSteps, expected);
    const auto all = [&](const auto& by_hop) {
      return kSteps * std::accumulate(by_hop.begin(), by_hop.end(), int64_t{0});
    };
    EXPECT_EQ(r.bulk.sent().bytes - all_before.bytes, all(expected.bytes));
    EXPECT_EQ(r.bulk.sent().messages - all_before.messages, all(expected.messages));
    const int64_t slow = to_other_hosts().bytes - slow_before.bytes;
    EXPECT_EQ(slow, kSteps * expected.slow_bytes());
    EXPECT_EQ(to_other_hosts().messages - slow_before.messages,
              kSteps * (expected.messages[Index(Hop::kSlowGather)] +
                        expected.messages[Index(Hop::kSlowReduce)]));
    // The number that the plan prints is this rank's, times the ranks of its host.
    EXPECT_DOUBLE_EQ(r.engine.plan().predicted_bytes_per_param,
                     static_cast<double>(slow / kSteps * c.locals) /
                         static_cast<double>(r.engine.plan().parameters));
    EXPECT_EQ(r.engine.plan().predicted_bytes_per_param,
              cluster.PlanOf(r.rank).predicted_bytes_per_param);
    slow_bytes_of_host[static_cast<size_t>(topology.host())] += slow;
    // Control messages are few and small: two agreements a pass and step.
    EXPECT_LE(after.control_bytes - before.control_bytes,
              kSteps * (c.micro_batches + 1 + (c.stage < 3 ? 2 : 0)) * (world - 1) * 128);
  });
  const Plan plan = cluster.PlanOf(0);
  for (const auto& bytes : slow_bytes_of_host) {
    const double per_param =
        static_cast<double>(bytes.load()) / kSteps / static_cast<double>(plan.parameters);
    EXPECT_LE(per_param, plan.formula_bytes_per_param * 1.01);
    if (c.hosts == 1) {
      EXPECT_EQ(per_param, 0);
    } else if (c.stage < 3 || c.recipe == "hpz" || c.recipe == "zero++") {
      EXPECT_GE(per_param, plan.formula_bytes_per_param * 0.99);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, EngineTraffic,
    testing::Values(Case{2, 2, "zero3", 1, 2}, Case{2, 2, "hpz", 1, 2}, Case{2, 2, "zero3", 3, 0},
                    Case{2, 2, "hpz", 3, 1}, Case{4, 2, "zero3", 1, 1}, Case{3, 2, "hpz", 1, 2},
                    Case{2, 1, "zero3", 1, 9}, Case{1, 4, "hpz", 1, 2}, Case{2, 2, "zero++", 1, 2},
                    Case{3, 2, "zero++", 2, 2}, Case{2, 2, "qwz", 1, 0},
                    Case{2, 2, "hpz", 1, 2, true}, Case{2, 3, "zero3", 2, 1, true},
                    Case{2, 2, "zero++", 2, 2, true}, Case{2, 2, "zero3", 1, 2, false, 2},
                    Case{3, 2, "zero3", 3, 2, false, 1}, Case{2, 3, "zero++", 2, 2, false, 1},
                    Case{2, 2, "zero++", 2, 2, true, 2}, Case{1, 4, "qgz", 2, 2, false, 1},
                    Case{2, 1, "qwz", 1, 2, true, 1}),
    [](const auto& test) {
      const Case& c = test.param;
      return StrCat(c.recipe == "zero++" ? "zeropp" : c.recipe, "_", c.hosts, "x", c.locals, "_",
                    c.micro_batches, "_", c.prefetch, c.frozen ? "_frozen" : "", "_stage", c.stage);
    });

TEST(HopSpans, AreThoseOfTheLaneWhileSomebodyWatches) {
  FakeCluster cluster{.hosts = 2, .locals = 2};
  cluster.units = Model();
  cluster.RunWell([&](FakeRank r) {
    const auto step = [&] {
      LeanPass(r.engine, PassKind::kTrain, true);
      r.engine.Step({.lr = 1e-3f});
      r.engine.Owned();
    };
    InitializeFake(r.engine);
    step();
    EXPECT_TRUE(r.engine.TakeHopSpans(true).empty());
    const Traffic before = r.engine.traffic();
    step();
    step();
    const Traffic after = r.engine.traffic();
    const std::vector<HopSpan> spans = r.engine.TakeHopSpans(false);
    Traffic seen;
    std::array<HopClock::time_point, 2> end{};  // of the last one in each lane
    for (const HopSpan& span : spans) {
      ++seen.exchanges[Index(span.hop)];
      seen.bytes[Index(span.hop)] += span.bytes;
      EXPECT_LE(span.begin, span.end);
      EXPECT_GE(span.begin, end[IsSlow(span.hop) ? 1 : 0]);
      end[IsSlow(span.hop) ? 1 : 0] = span.end;
    }
    for (size_t h = 0; h < kHops; ++h) {
      EXPECT_EQ(seen.exchanges[h], after.exchanges[h] - before.exchanges[h]) << h;
      EXPECT_EQ(seen.bytes[h], after.bytes[h] - before.bytes[h]) << h;
      EXPECT_GT(seen.bytes[h], 0) << h;
    }
    step();
    EXPECT_TRUE(r.engine.TakeHopSpans(false).empty());
  });
}

}  // namespace
}  // namespace thinwire::zero
