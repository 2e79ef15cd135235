#include "thinwire/planner/simulation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace thinwire::planner {
namespace {

// Units of one matrix each: shards are equal, and messages are their bytes and a header.
std::vector<zero::UnitSpec> Units(int count) {
  std::vector<zero::UnitSpec> units;
  for (int u = 0; u < count; ++u) {
    units.push_back({StrCat("unit", u), {{StrCat("unit", u, ".w"), {1024, 1024}}}});
  }
  return units;
}

zero::Plan PlanOf(const std::string& recipe, int hosts, int locals, int units = 4,
                  int micro_batches = 1) {
  zero::EngineOptions options{.recipe = recipe, .micro_batches = micro_batches};
  return zero::MakePlan(Units(units), comm::Topology(hosts, locals, 0), options);
}

// One unit's message of one rank: its shard in bf16 and the header.
double MessageBytes(int ranks) { return 1024.0 * 1024 / ranks * 2 + 40; }

std::vector<UnitWork> Work(size_t units, double forward_s, double backward_s) {
  return std::vector<UnitWork>(units, {forward_s, backward_s});
}

TEST(Simulation, WithoutLinksAStepIsItsComputing) {
  const auto step = PredictStep(PlanOf("zero3", 2, 2), {}, Work(4, 0.25, 0.5));
  EXPECT_NEAR(step.seconds, 4 * 0.75, 1e-9);
  EXPECT_NEAR(step.compute_s, 3, 1e-9);
  EXPECT_NEAR(step.exposed_s, 0, 1e-9);
}

TEST(Simulation, OptimizerAndAgreementsAreAdded) {
  Machine machine;
  machine.optimizer_s = 1e-6;
  machine.idle_agreement_s = 0.01;
  const auto step = PredictStep(PlanOf("zero3", 2, 2), machine, Work(4, 0, 0));
  const double owned = 4 * 1024.0 * 1024 / 4;
  EXPECT_NEAR(step.optimizer_s, owned * 1e-6, 1e-9);
  // One before the pass, one in the step.
  EXPECT_NEAR(step.seconds, owned * 1e-6 + 0.02, 1e-9);
}

// No computing: a step is what the slow link carries. hpz: each unit is pushed and reduced once.
TEST(Simulation, ASlowLinkAloneIsItsBytes) {
  Machine machine;
  machine.slow.bytes_per_s = 1e6;
  const auto step = PredictStep(PlanOf("hpz", 2, 2), machine, Work(4, 0, 0));
  const double bytes = 2 * 4 * 2 * MessageBytes(4);  // both ranks of a host
  EXPECT_NEAR(step.seconds, bytes / 1e6, 1e-6);
  EXPECT_NEAR(static_cast<double>(step.slow_bytes_per_host), bytes, 1);
  EXPECT_NEAR(step.slow_link_s, step.seconds, 1e-6);
  EXPECT_NEAR(step.exposed_s, step.seconds, 1e-6);
}

// Pulls: 4 units forward, and of them those backward that are not in one of 3 buffers any more.
TEST(Simulation, PullsAreThoseOfTheProgram) {
  Machine machine;
  machine.slow.bytes_per_s = 1e6;
  const zero::Plan plan = PlanOf("zero3", 2, 2);
  const auto step = PredictStep(plan, machine, Work(4, 0, 0));
  const double predicted = plan.predicted_bytes_per_param * static_cast<double>(plan.parameters);
  EXPECT_NEAR(static_cast<double>(step.slow_bytes_per_host), predicted, 1);
  EXPECT_NEAR(step.seconds, predicted / 1e6, 1e-6);
}

TEST(Simulation, LatencyOfEachMessageIsExposedWhenNothingElseIsToDo) {
  Machine machine;
  machine.slow.latency_s = 1;
  // One unit: a push before the forward, a reduction after the backward.
  const auto step = PredictStep(PlanOf("hpz", 2, 1, 1), machine, Work(1, 0, 0));
  EXPECT_NEAR(step.seconds, 2, 1e-9);
}

// Computing is long enough to hide all but the last unit's reduction, and the first one's push.
TEST(Simulation, AnExchangeHidesBehindComputing) {
  Machine machine;
  machine.slow.bytes_per_s = 1e6;
  const double message = 2 * MessageBytes(4) / 1e6;  // seconds of a unit
  const auto step = PredictStep(PlanOf("hpz", 2, 2), machine, Work(4, 2 * message, 2 * message));
  EXPECT_NEAR(step.compute_s, 16 * message, 1e-9);
  EXPECT_NEAR(step.exposed_s, 2 * message, 1e-6);
  EXPECT_NEAR(step.seconds, 18 * message, 1e-6);
}

TEST(Simulation, HalfDuplexTakesTwice) {
  Machine machine;
  machine.slow.bytes_per_s = 1e6;
  const auto full = PredictStep(PlanOf("hpz", 2, 2), machine, Work(4, 0, 0));
  machine.full_duplex = false;
  const auto half = PredictStep(PlanOf("hpz", 2, 2), machine, Work(4, 0, 0));
  EXPECT_NEAR(half.seconds, 2 * full.seconds, 1e-6);
}

// Two ranks share a core: what is computed and what is coded add up.
TEST(Simulation, CodingTakesCoresFromComputing) {
  Machine machine;
  machine.cores_per_rank = 0.5;
  EXPECT_NEAR(PredictStep(PlanOf("hpz", 1, 2), machine, Work(4, 0.25, 0.5)).seconds, 6, 1e-9);
  machine.other = {.encode_s = 1e-6, .decode_s = 0, .sum_s = 0};
  // The fast hop: a gather encodes a slice of half a unit twice a pass, a reduction the other's
  // half once. The program gathers 4 units forward and the first two of them again.
  const double coded = (4 + 1 + 4) * 512.0 * 1024 * 1e-6;
  const auto coding = PredictStep(PlanOf("hpz", 1, 2), machine, Work(4, 0.25, 0.5));
  EXPECT_GT(coding.seconds, 6 + coded);
  EXPECT_LE(coding.seconds, 6 + 2 * coded + 1e-9);
}

TEST(Simulation, MicroBatchesRepeatThePassAndReduceOnce) {
  Machine machine;
  machine.slow.bytes_per_s = 1e6;
  const auto one = PredictStep(PlanOf("hpz", 2, 2), machine, Work(4, 0.25, 0.5));
  const auto four = PredictStep(PlanOf("hpz", 2, 2, 4, 4), machine, Work(4, 0.25, 0.5));
  EXPECT_EQ(one.slow_bytes_per_host, four.slow_bytes_per_host);
  EXPECT_NEAR(four.compute_s, 12, 1e-9);
  EXPECT_GT(four.seconds, 12);
}

// So many that only some are gone through: the rest adds what these do.
TEST(Simulation, ManyMicroBatchesAreAsManyTimesOne) {
  Machine machine;
  machine.slow.bytes_per_s = 1e7;
  machine.busy_agreement_s = machine.idle_agreement_s = 1e-3;
  for (const char* recipe : {"zero3", "hpz", "zero++"}) {
    const auto with = [&](int micro_batches) {
      const zero::Plan plan = PlanOf(recipe, 2, 2, 4, micro_batches);
      const auto step = PredictStep(plan, machine, Work(4, 0.25, 0.5));
      const double predicted =
          plan.predicted_bytes_per_param * static_cast<double>(plan.parameters);
      EXPECT_NEAR(static_cast<double>(step.slow_bytes_per_host), predicted, 1) << recipe;
      EXPECT_NEAR(step.compute_s, 3.0 * micro_batches, 1e-6) << recipe;
      EXPECT_NEAR(step.compute_s + step.exposed_s + step.optimizer_s, step.seconds, 1e-6);
      return step;
    };
    const auto some = with(8), more = with(16), many = with(1'000'000);
    const double of_one = (more.seconds - some.seconds) / 8;
    EXPECT_NEAR(many.seconds / (more.seconds + of_one * (1'000'000 - 16)), 1, 1e-6) << recipe;
    const double link_of_one = (more.slow_link_s - some.slow_link_s) / 8;
    EXPECT_NEAR(many.slow_link_s, more.slow_link_s + link_of_one * (1'000'000 - 16), 1) << recipe;
    for (size_t h = 0; h < zero::kHops; ++h) {
      const double hop_of_one = (more.hop_seconds[h] - some.hop_seconds[h]) / 8;
      EXPECT_NEAR(many.hop_seconds[h], more.hop_seconds[h] + hop_of_one * (1'000'000 - 16), 1);
    }
  }
}

TEST(Simulation, AFasterLinkIsNeverSlower) {
  for (const char* recipe : {"zero3", "hpz", "qwz", "zero++"}) {
    for (const int stage : {1, 3}) {
      zero::EngineOptions options{.recipe = recipe, .stage = stage};
      const zero::Plan plan = zero::MakePlan(Units(5), comm::Topology(3, 2, 0), options);
      Machine machine;
      machine.cores_per_rank = 1;
      machine.other = {1e-9, 1e-9, 1e-9};
      machine.slow.core_s_per_byte = 1e-10;
      double before = std::numeric_limits<double>::infinity();
      for (double rate = 1e6; rate < 1e10; rate *= 3) {
        machine.slow.bytes_per_s = rate;
        const double seconds = PredictStep(plan, machine, Work(5, 0.01, 0.02)).seconds;
        EXPECT_LE(seconds, before * 1.001) << recipe << " at " << rate;
        before = seconds;
      }
      EXPECT_GE(before, 0.15);
    }
  }
}

}  // namespace
}  // namespace thinwire::planner
