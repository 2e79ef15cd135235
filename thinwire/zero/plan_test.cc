#include "thinwire/zero/plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "thinwire/base/error.h"
#include "thinwire/zero/memory.h"
#include "thinwire/zero/program.h"

namespace thinwire::zero {
namespace {

// Four blocks of about 160 000 parameters and an untied head.
std::vector<UnitSpec> Model() {
  std::vector<UnitSpec> units{{"embed", {{"embed", {1000, 128}}}, true}};
  for (int i = 0; i < 4; ++i) {
    const std::string name = StrCat("layers.", i);
    units.push_back(
        {name, {{name + ".wq", {128, 512}}, {name + ".norm", {128}}, {name + ".w1", {768, 128}}}});
  }
  units.push_back({"head", {{"norm", {128}}, {"head", {1000, 128}}}});
  return units;
}

Plan PlanFor(int hosts, int locals, const EngineOptions& options, int rank = 0) {
  return MakePlan(Model(), comm::Topology(hosts, locals, rank), options);
}

// All frozen but the head.
std::vector<UnitSpec> MostlyFrozen() {
  std::vector<UnitSpec> units = Model();
  for (UnitSpec& unit : units) unit.trainable = unit.name == "head";
  return units;
}

TEST(Plan, FormulaAndPrediction) {
  for (const int hosts : {1, 2, 3, 4, 8}) {
    for (const int micro : {1, 8}) {
      for (const int locals : {1, 2, 4}) {
        SCOPED_TRACE(testing::Message() << hosts << " x " << locals << ", " << micro);
        const double share = (hosts - 1.0) / hosts;
        // Without a spare buffer no gather is saved but that of the last unit.
        EngineOptions options{.recipe = "zero3", .micro_batches = micro, .prefetch = 0};
        const Plan zero3 = PlanFor(hosts, locals, options);
        EXPECT_DOUBLE_EQ(zero3.formula_bytes_per_param, (4.0 * micro + 2) * share);
        EXPECT_LE(zero3.predicted_bytes_per_param, zero3.formula_bytes_per_param * 1.01);
        // The head, a sixth of the model, stays in its buffer between forward and backward.
        EXPECT_GE(zero3.predicted_bytes_per_param, zero3.formula_bytes_per_param * 0.83);

        options.recipe = "hpz";
        const Plan hpz = PlanFor(hosts, locals, options);
        EXPECT_DOUBLE_EQ(hpz.formula_bytes_per_param, 4 * share);
        EXPECT_LE(hpz.predicted_bytes_per_param, hpz.formula_bytes_per_param * 1.01);
        // A shard is within a grain of its share.
        EXPECT_GE(hpz.predicted_bytes_per_param, hpz.formula_bytes_per_param * 0.99);
      }
    }
  }
}

TEST(Plan, FrozenUnitsAreGatheredOnly) {
  const double trained = 128128.0 / (2 * 128000 + 128 + 4 * 163968);
  for (const char* recipe : {"zero3", "hpz"}) {
    const bool kept = std::string(recipe) == "hpz";
    const EngineOptions options{.recipe = recipe, .prefetch = 0};
    const Plan plan = MakePlan(MostlyFrozen(), comm::Topology(4, 2, 0), options);
    EXPECT_EQ(plan.trainable_parameters, 128128);
    EXPECT_DOUBLE_EQ(plan.formula_bytes_per_param,
                     0.75 * (kept ? 2 * trained + 2 * trained : 2 * 2 + 2 * trained));
    EXPECT_LE(plan.predicted_bytes_per_param, plan.formula_bytes_per_param * 1.01);
    EXPECT_GE(plan.predicted_bytes_per_param, plan.formula_bytes_per_param * (kept ? 0.99 : 0.8));
    // The blocks are the largest units, but have no gradients.
    EXPECT_LT(plan.gradient_bytes, plan.unit_bytes);
    EXPECT_EQ(plan.gradient_bytes, 2 * 128128);
    EXPECT_NE(Describe(plan).find("128128 of them trained"), std::string::npos);
    EXPECT_EQ(Describe(plan).find("frozen units are pushed once") != std::string::npos, kept);
  }
  std::vector<UnitSpec> none = Model();
  for (UnitSpec& unit : none) unit.trainable = false;
  const Plan plan = MakePlan(none, comm::Topology(4, 2, 0), {.recipe = "hpz"});
  EXPECT_EQ(plan.predicted_bytes_per_param, 0);
  EXPECT_EQ(plan.formula_bytes_per_param, 0);
}

TEST(Plan, WireTypeCountsInTheFormula) {
  EngineOptions options{.recipe = "hpz", .wire = DType::kF32};
  EXPECT_DOUBLE_EQ(PlanFor(2, 2, options).formula_bytes_per_param, 4);
  options.wire = DType::kF16;
  EXPECT_DOUBLE_EQ(PlanFor(2, 2, options).formula_bytes_per_param, 2);
}

TEST(Plan, SlowBytesFollowTheGatheredUnits) {
  const Plan plan = PlanFor(2, 2, {.recipe = "zero3", .micro_batches = 3});
  const int64_t none = SlowBytesPerStep(plan, {});
  const int64_t unit = plan.routes[2].sent_bytes(Hop::kSlowGather);
  EXPECT_NEAR(static_cast<double>(unit), static_cast<double>(plan.units[2].numel() / 4 * 2), 300);
  EXPECT_EQ(SlowBytesPerStep(plan, {2}) - none, 3 * unit);
  EXPECT_EQ(SlowBytesPerStep(plan, {2, 2}) - none, 6 * unit);
  const Plan kept = PlanFor(2, 2, {.recipe = "hpz", .micro_batches = 3});
  EXPECT_EQ(SlowBytesPerStep(kept, {2, 2}), SlowBytesPerStep(kept, {}));
}

int64_t Held(const Memory& memory) {
  int64_t bytes = 0;
  for (const UnitMemory& unit : memory.units) bytes += unit.storage.size();
  for (const auto* buffers :
       {&memory.unit_buffers, &memory.code_buffers, &memory.gradient_buffers, &memory.staging}) {
    for (const AlignedBuffer& buffer : *buffers) bytes += buffer.size();
  }
  return bytes;
}

TEST(Plan, MemoryIsWhatTheEngineHolds) {
  for (const char* recipe : {"zero3", "hpz", "qwz", "zero++"}) {
    for (const auto& [stage, micro] :
         {std::pair(3, 1), {3, 0}, {3, 4}, {2, 1}, {2, 4}, {1, 0}, {1, 1}, {1, 4}}) {
      // The first and the last rank of each model, in a type each: a plan takes a moment to build.
      for (const int rank : {0, 5, 6, 11}) {
        const DType compute = rank % 2 == 0 ? DType::kF32 : DType::kBF16;
        const Plan plan = MakePlan(
            rank < 6 ? Model() : MostlyFrozen(), comm::Topology(3, 2, rank % 6),
            {.recipe = recipe, .stage = stage, .compute = compute, .micro_batches = micro});
        const int64_t messages = plan.memory.back().bytes;
        EXPECT_EQ(plan.memory.back().kind, "messages in flight");
        EXPECT_EQ(messages,
                  kFastWindow * plan.message_bytes[0] + kSlowWindow * plan.message_bytes[1]);
        // Alignment: up to 64 bytes for each of six images of a unit.
        const int64_t slack = 64 * 6 * static_cast<int64_t>(plan.units.size());
        EXPECT_NEAR(static_cast<double>(Held(Memory(plan))),
                    static_cast<double>(plan.memory_bytes() - messages),
                    static_cast<double>(slack));
      }
    }
  }
}

TEST(Plan, MemoryImagesDoNotOverlapAndLieInside) {
  const Plan plan = PlanFor(2, 2, {.recipe = "hpz", .micro_batches = 2}, 3);
  const Memory memory(plan);
  for (const UnitMemory& unit : memory.units) {
    const std::byte* at = unit.storage.data();
    for (const comm::Image* image : {&unit.master, &unit.gradient, &unit.states[0], &unit.states[1],
                                     &unit.kept, &unit.accumulator}) {
      EXPECT_GE(image->matrix.data, at);
      EXPECT_EQ(image->vector.data, image->matrix.data + image->matrix.bytes());
      at = image->vector.data + image->vector.bytes();
    }
    EXPECT_LE(at, unit.storage.data() + unit.storage.size());
  }
}

std::string ErrorOf(const EngineOptions& options) {
  try {
    PlanFor(2, 2, options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Plan, RefusesSettingsByName) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<std::pair<EngineOptions, std::string>> cases = {
      {{.recipe = "zero4"}, "did you mean zero3?"},
      {{.micro_batches = -1}, "training.micro_batches = -1"},
      {{.prefetch = -1}, "parallel.prefetch = -1"},
      {{.prefetch = 2000}, "parallel.prefetch = 2000"},
      {{.chunk_bytes = 100}, "parallel.chunk_bytes = 100"},
      {{.max_grad_norm = -1}, "training.max_grad_norm = -1"},
      {{.max_grad_norm = nan}, "training.max_grad_norm"},
      {{.max_grad_norm = inf}, "training.max_grad_norm"},
      {{.groups = {{.beta1 = 1}, {}}}, "the optimizer's beta1 = 1 of parameter group 0"},
      {{.groups = {{}, {.beta2 = -0.5f}}}, "beta2 = -0.5 of parameter group 1"},
      {{.groups = {{.beta2 = nan}, {}}}, "beta2 = nan"},
      {{.groups = {{.eps = 0}, {}}}, "eps = 0"},
      {{.groups = {{.weight_decay = nan}, {}}}, "weight_decay = nan"},
      {{.groups = {{}}}, "parameter layers.0.norm is of group 1 where there are 1"},
      {{.deadline = std::chrono::milliseconds(0)}, "parallel.deadline_s = 0"},
      {{.deadline = std::chrono::milliseconds(-5)}, "parallel.deadline_s"},
  };
  for (const auto& [options, words] : cases) {
    EXPECT_NE(ErrorOf(options).find(words), std::string::npos) << words << ": " << ErrorOf(options);
  }
  EXPECT_EQ(ErrorOf({}), "no error");
}

TEST(Plan, RefusesModelsWhoseBytesDoNotFit) {
  const comm::Topology topology(2, 2, 0);
  EXPECT_THROW(MakePlan({{"u", {{"w", {INT64_MAX / 2}}}}}, topology, {}), UsageError);
  EXPECT_THROW(MakePlan({{"u", {{"w", {INT64_MAX}}}}, {"v", {{"x", {INT64_MAX}}}}}, topology, {}),
               UsageError);
}

std::string LineOf(const std::string& text, const std::string& start) {
  const size_t at = text.find(start);
  return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
}

TEST(Plan, NothingToTrain) {
  for (const auto& units :
       {std::vector<UnitSpec>{}, {{"empty", {}}}, {{"none", {{"w", {0, 3}}}}}}) {
    const Plan plan = MakePlan(units, comm::Topology(2, 2, 0), {});
    EXPECT_EQ(plan.parameters, 0);
    EXPECT_EQ(plan.predicted_bytes_per_param, 0);
    EXPECT_EQ(plan.unit_buffers, 1);
    EXPECT_EQ(LineOf(Describe(plan), "because"), "");
  }
}

TEST(Plan, DescribeNamesHopsCodecsAndReasons) {
  const std::string both = Describe(PlanFor(2, 2, {.recipe = "zero3"}));
  EXPECT_EQ(LineOf(both, "plan:"), "plan: recipe zero3, 2 hosts x 2 ranks (given)");
  EXPECT_EQ(LineOf(both, "slow gather"), "slow gather   bf16, pulled before each use");
  EXPECT_EQ(LineOf(both, "fast gather"), "fast gather   bf16, before each use");
  EXPECT_EQ(LineOf(both, "fast reduce"), "fast reduce   bf16, after each backward");
  EXPECT_EQ(LineOf(both, "slow reduce"), "slow reduce   bf16, once per step");
  EXPECT_NE(LineOf(both, "slow link").find("formula of the recipe 3.000"), std::string::npos);

  const std::string one_host = Describe(PlanFor(1, 2, {.recipe = "hpz"}));
  EXPECT_EQ(LineOf(one_host, "slow gather"), "slow gather   none: there is one host");
  EXPECT_EQ(LineOf(one_host, "slow reduce"), "slow reduce   none: there is one host");
  EXPECT_EQ(LineOf(one_host, "fast reduce"), "fast reduce   bf16, after each backward");

  const std::string one_rank = Describe(PlanFor(2, 1, {.recipe = "hpz", .wire = DType::kF32}));
  EXPECT_EQ(LineOf(one_rank, "fast gather"), "fast gather   none: there is one rank per host");
  EXPECT_EQ(LineOf(one_rank, "slow gather").rfind("slow gather   fp32, pushed once per step", 0),
            0u);
  EXPECT_NE(one_rank.find("kept slice of the host, bf16"), std::string::npos);
  EXPECT_EQ(both.find("kept slice"), std::string::npos);

  EXPECT_EQ(LineOf(both, "fast link"), "");
  const EngineOptions near{.near_link = "shared memory"};
  EXPECT_EQ(LineOf(Describe(PlanFor(2, 2, near)), "fast link"), "fast link     shared memory");
  EXPECT_EQ(LineOf(Describe(PlanFor(2, 1, near)), "fast link"), "");
  EXPECT_EQ(both.find("rings"), std::string::npos);
  // Two messages of at most 256 KiB on their way to each of three.
  const Plan rings = PlanFor(2, 4, {.near_link = "shared memory", .near_peers = 3});
  EXPECT_EQ(rings.memory.back().kind, "rings of shared memory");
  EXPECT_EQ(rings.memory.back().bytes,
            3 * 2 * std::min<int64_t>(rings.message_bytes[0], 256 << 10));
  EXPECT_EQ(LineOf(both, "checksum"), "");
  const EngineOptions checksum{.checksum = true};
  EXPECT_EQ(LineOf(Describe(PlanFor(2, 2, checksum)), "checksum"),
            "checksum      CRC-32C of each message");
  EXPECT_EQ(LineOf(Describe(PlanFor(1, 1, checksum)), "checksum"),
            "checksum      none: one rank sends nothing");
}

// By stage, as ZeRO has them: whole weights below 3, whole gradients of several micro-batches at 1.
TEST(Plan, StagesAreLifetimes) {
  const auto item = [](const Plan& plan, const std::string& kind) {
    for (const MemoryItem& each : plan.memory) {
      if (each.kind == kind) return each.bytes;
    }
    return int64_t{0};
  };
  for (const int stage : {1, 2, 3}) {
    const Plan plan = PlanFor(2, 2, {.recipe = "zero++", .stage = stage, .micro_batches = 4});
    EXPECT_EQ(plan.recipe.kept, stage == 3 ? Kept::kCodes : Kept::kNothing);
    EXPECT_NEAR(static_cast<double>(item(plan, "weights of all units, bf16")),
                stage == 3 ? 0 : static_cast<double>(2 * plan.parameters), 1000);
    EXPECT_EQ(item(plan, "gradients of whole units, fp32"), stage == 1 ? 4 * plan.parameters : 0);
    EXPECT_EQ(item(plan, "slice accumulators, fp32") > 0, stage != 1);
    // What is kept changes nothing on the link: all push codes once per step.
    EXPECT_NEAR(plan.predicted_bytes_per_param, 0.77, 0.02) << stage;
    const std::string text = Describe(plan);
    EXPECT_EQ(text.find("no slice is kept: at stage") != std::string::npos, stage < 3) << text;
    EXPECT_EQ(LineOf(text, "fast reduce"), stage == 1
                                               ? "fast reduce   int4/128, once per step"
                                               : "fast reduce   int4/128, after each backward");
    const Plan plain = PlanFor(2, 2, {.recipe = "zero3", .stage = stage});
    EXPECT_NEAR(plain.predicted_bytes_per_param, stage == 3 ? 3 : 2, stage == 3 ? 0.7 : 0.02);
    EXPECT_EQ(Describe(plain).find("no slice is kept"), std::string::npos);
  }
  EXPECT_EQ(ErrorOf({.stage = 4}), "parallel.stage = 4: it must be 1, 2 or 3");
}

// A part of a recipe that does nothing here is a line with the reason, not silence (DeepSpeed
// #4886).
TEST(Plan, DescribeSaysWhichPartsOfZeroPlusPlusAreActiveAndWhyNot) {
  const std::string all = Describe(PlanFor(2, 2, {.recipe = "zero++"}));
  EXPECT_EQ(LineOf(all, "slow gather"),
            "slow gather   int8/128, pushed once per step after the optimizer; each rank keeps the "
            "codes of its slice");
  EXPECT_EQ(LineOf(all, "fast gather"),
            "fast gather   the codes of the slow gather (int8/128), before each use");
  EXPECT_EQ(LineOf(all, "fast reduce"), "fast reduce   int4/128, after each backward");
  EXPECT_EQ(LineOf(all, "slow reduce"), "slow reduce   int4/128, once per step");
  EXPECT_EQ(LineOf(all, "note"), "");
  EXPECT_NE(all.find("kept slice of the host, in codes of int8/128"), std::string::npos);

  const std::string one_host = Describe(PlanFor(1, 4, {.recipe = "zero++"}));
  EXPECT_EQ(LineOf(one_host, "fast reduce"), "fast reduce   bf16, after each backward");
  EXPECT_EQ(LineOf(one_host, "note          nothing"),
            "note          nothing is kept: there is one host, and no slow link to spare");
  EXPECT_EQ(LineOf(one_host, "note          the hops"),
            "note          the hops inside the host carry bf16 as it is: coding them gains nothing "
            "on one host");

  const std::string one_rank = Describe(PlanFor(4, 1, {.recipe = "zero++"}));
  EXPECT_EQ(LineOf(one_rank, "fast reduce"), "fast reduce   none: there is one rank per host");
  EXPECT_EQ(LineOf(one_rank, "slow reduce"), "slow reduce   int4/128, once per step");
}

// What a message has is not known before it is coded; the plan is made for the most.
TEST(Plan, DescribeSaysWhatEntropyCodingLeaves) {
  const Plan plain = PlanFor(2, 2, {.recipe = "ternary"});
  const Plan coded = PlanFor(2, 2, {.recipe = "ternary+coded"});
  EXPECT_EQ(LineOf(Describe(plain), "entropy"), "");
  EXPECT_EQ(plain.coded_bytes_per_param, 0);
  EXPECT_GE(coded.predicted_bytes_per_param, plain.predicted_bytes_per_param);
  EXPECT_LT(coded.predicted_bytes_per_param, plain.predicted_bytes_per_param * 1.02);
  EXPECT_NEAR(coded.coded_bytes_per_param / coded.predicted_bytes_per_param, 0.906, 0.01);
  const std::string line = LineOf(Describe(coded), "entropy");
  EXPECT_NE(line.find("slow gather and slow reduce coded: the prediction is the most they send"),
            std::string::npos)
      << line;
  EXPECT_GT(PlanFor(2, 2, {.recipe = "zero+++coded"}).message_bytes[1],
            PlanFor(2, 2, {.recipe = "zero++"}).message_bytes[1]);
  EXPECT_EQ(LineOf(Describe(PlanFor(2, 2, {.recipe = "qgz+coded"})), "entropy").find("gather"),
            std::string::npos);
}

TEST(Plan, DescribeSaysThatVectorsAreNotCoded) {
  // Model() has five norms of 128.
  const std::string words =
      "vectors       640 parameters (0.070 %) travel in bf16 where others are coded: they have one "
      "dimension";
  EXPECT_EQ(LineOf(Describe(PlanFor(2, 2, {.recipe = "zero++"})), "vectors"), words);
  EXPECT_EQ(LineOf(Describe(PlanFor(2, 2, {.recipe = "qwz"})), "vectors"), words);
  EXPECT_EQ(LineOf(Describe(PlanFor(2, 2, {.recipe = "fast_reduce=int4/64"})), "vectors"), words);
  // Nothing is coded, or on a hop with one participant only.
  EXPECT_EQ(LineOf(Describe(PlanFor(2, 2, {.recipe = "hpz"})), "vectors"), "");
  EXPECT_EQ(LineOf(Describe(PlanFor(1, 4, {.recipe = "zero++"})), "vectors"), "");
  EXPECT_EQ(LineOf(Describe(PlanFor(2, 1, {.recipe = "fast_reduce=int4/64"})), "vectors"), "");
}

TEST(Plan, DescribeSaysWhyPredictionAndFormulaDiffer) {
  const std::vector<UnitSpec> norms = {{"norms", {{"a", {30000}}, {"b", {30000}}}}};
  const auto line = [](const Plan& plan) { return LineOf(Describe(plan), "because"); };
  const auto sum = [&](const Plan& plan) {
    std::istringstream words(line(plan));
    double total = 0;
    for (std::string word; words >> word;) {
      if (word[0] == '+' || word[0] == '-') total += std::stod(word);
    }
    return total;
  };
  const comm::Topology two_by_two(2, 2, 0);
  for (const auto& [units, recipe] :
       std::vector<std::pair<std::vector<UnitSpec>, const char*>>{{norms, "zero++"},
                                                                  {norms, "qwz"},
                                                                  {Model(), "zero3"},
                                                                  {Model(), "qwz+qgz"},
                                                                  {MostlyFrozen(), "qgz"}}) {
    const Plan plan = MakePlan(units, two_by_two, {.recipe = recipe});
    const double difference = plan.predicted_bytes_per_param - plan.formula_bytes_per_param;
    EXPECT_NE(line(plan), "") << recipe;
    EXPECT_NEAR(sum(plan), difference, 0.002) << line(plan);
  }
  // 2 bytes each way where int8 has 1 + 2/128 and int4 1/2 + 2/128.
  EXPECT_EQ(line(MakePlan(norms, two_by_two, {.recipe = "zero++"}))
                .rfind("because       +1.234 parameters of one dimension, not coded", 0),
            0u)
      << line(MakePlan(norms, two_by_two, {.recipe = "zero++"}));
  EXPECT_EQ(line(PlanFor(2, 2, {.recipe = "hpz"})), "");
  EXPECT_EQ(line(PlanFor(2, 2, {.recipe = "zero3"})).rfind("because       -", 0), 0u);
  EXPECT_NE(line(PlanFor(2, 2, {.recipe = "zero3"})).find("weights still in a buffer"),
            std::string::npos);
}

TEST(Plan, DescribeListsTheMemoryThatItSums) {
  const Plan plan = PlanFor(2, 2, {.recipe = "hpz", .micro_batches = 2});
  const std::string text = Describe(plan);
  int64_t sum = 0;
  for (const MemoryItem& item : plan.memory) {
    EXPECT_NE(text.find(item.kind), std::string::npos);
    sum += item.bytes;
  }
  EXPECT_EQ(sum, plan.memory_bytes());
  const int64_t shard = plan.memory[0].bytes / 4;
  EXPECT_NEAR(static_cast<double>(shard), static_cast<double>(plan.parameters) / 4, 6 * 256);
  EXPECT_EQ(plan.memory[1].bytes, 8 * shard);
}

}  // namespace
}  // namespace thinwire::zero
