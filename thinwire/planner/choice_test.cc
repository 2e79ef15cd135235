#include "thinwire/planner/choice.h"

#include <gtest/gtest.h>

#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/planner/resources.h"
#include "thinwire/planner/transformer.h"

namespace thinwire::planner {
namespace {

class ChoiceTest : public testing::Test {
 protected:
  Question Ask(double slow_bytes_per_s, int hosts = 2, int locals = 2) {
    units_ = UnitsOf({.layers = 4, .hidden = 256, .intermediate = 704, .vocab = 1000});
    work_ = SplitWork(zero::MakeLayout(units_, hosts, locals, DType::kBF16), 0.2);
    Question question{.units = units_,
                      .topology = comm::Topology(hosts, locals, 0),
                      .options = {},
                      .work = work_};
    question.machine.slow = {.bytes_per_s = slow_bytes_per_s, .latency_s = 1e-4};
    question.machine.other = {2e-9, 2e-9, 2e-9};
    question.machine.codecs["bf16"] = {1e-10, 1e-10, 1e-10};
    question.machine.cores_per_rank = 0.5;
    return question;
  }

  std::vector<zero::UnitSpec> units_;
  std::vector<UnitWork> work_;
};

TEST_F(ChoiceTest, ASlowLinkWantsFewBytesAFastOneNoCodes) {
  const Choice slow = Choose(Ask(1e6));
  EXPECT_LT(slow.best().bytes_per_param, 0.8);
  EXPECT_EQ(Choose(Ask(1e12)).best().recipe, "zero3");
}

TEST_F(ChoiceTest, TheBudgetExcludes) {
  Question question = Ask(1e6);
  question.loss_budget = 0;
  const Choice choice = Choose(question);
  EXPECT_EQ(choice.best().recipe, "hpz");
  for (const Candidate& each : choice.candidates) {
    EXPECT_EQ(each.excluded, each.gap_percent > 0 ? "beyond the loss budget" : "") << each.recipe;
  }
}

TEST_F(ChoiceTest, MemoryExcludesAndTheLeastOfItIsTheLastResort) {
  Question question = Ask(1e6);
  question.loss_budget = 0;
  const Candidate fastest = Choose(question).best();
  question.memory_bytes = fastest.memory_bytes - 1;
  const Choice other = Choose(question);
  EXPECT_NE(other.best().recipe, fastest.recipe);
  EXPECT_GT(other.best().step.seconds, fastest.step.seconds);
  question.loss_budget = 1;
  question.memory_bytes = 1;
  const Choice least = Choose(question);
  for (const Candidate& each : least.candidates) {
    EXPECT_EQ(each.excluded, "not enough memory");
    EXPECT_GE(each.memory_bytes, least.best().memory_bytes);
  }
  EXPECT_NE(Describe(question, least).find("no recipe fits"), std::string::npos);
}

TEST_F(ChoiceTest, OnOneHostTheRawRecipe) {
  const Question question = Ask(1e6, 1, 4);
  const Choice choice = Choose(question);
  EXPECT_EQ(choice.best().recipe, "zero3");
  EXPECT_NE(Describe(question, choice).find("one host"), std::string::npos);
}

TEST_F(ChoiceTest, TheTableMarksWhatIsChosen) {
  const Question question = Ask(1e6);
  const Choice choice = Choose(question);
  const std::string table = Describe(question, choice);
  EXPECT_NE(table.find("-> " + choice.best().recipe), std::string::npos) << table;
  for (const KnownRecipe& known : KnownRecipes()) {
    EXPECT_NE(table.find(known.name), std::string::npos) << table;
  }
}

TEST_F(ChoiceTest, TuningNeverSlowsDown) {
  const Question question = Ask(1e7);
  Candidate candidate = Predict(question, "zero3");
  const double before = candidate.step.seconds;
  Tune(question, candidate);
  EXPECT_LE(candidate.step.seconds, before);
  EXPECT_EQ(candidate.options.recipe, "zero3");
}

TEST(WorthSwitchingTest, NeedsMoreThanTenPercent) {
  const auto of = [](const char* recipe, double seconds) {
    Candidate candidate;
    candidate.recipe = recipe;
    candidate.step.seconds = seconds;
    return candidate;
  };
  EXPECT_FALSE(WorthSwitching(of("zero3", 1), of("hpz", 0.91)));
  EXPECT_TRUE(WorthSwitching(of("zero3", 1), of("hpz", 0.89)));
  EXPECT_FALSE(WorthSwitching(of("hpz", 1), of("hpz", 0.5)));
}

TEST(ShareFairlyTest, GivesLittleWantsFirst) {
  std::array<double, 3> cores{1, 0.1, 1};
  ShareFairly(0.5, cores);
  EXPECT_NEAR(cores[0], 0.2, 1e-12);
  EXPECT_NEAR(cores[1], 0.1, 1e-12);
  EXPECT_NEAR(cores[2], 0.2, 1e-12);
  std::array<double, 2> enough{1, 0.5};
  ShareFairly(2, enough);
  EXPECT_EQ(enough[0], 1);
  EXPECT_EQ(enough[1], 0.5);
}

TEST(TransformerTest, ItsUnitsHaveTheParameters) {
  for (const double wanted : {1e6, 29.9e6, 1e9, 7e9, 70e9, 400e9}) {
    const TransformerShape shape = ShapeOf(wanted, {});
    EXPECT_NEAR(static_cast<double>(shape.parameters()) / wanted, 1, 0.02) << wanted;
    int64_t counted = 0;
    for (const zero::UnitLayout& unit : zero::MakeLayout(UnitsOf(shape), 1, 1, DType::kBF16)) {
      counted += unit.numel();
    }
    EXPECT_EQ(counted, shape.parameters());
  }
  const TransformerShape given = ShapeOf(70e9, {.layers = 80, .hidden = 8192});
  EXPECT_EQ(given.layers, 80);
  EXPECT_EQ(given.hidden, 8192);
}

TEST(TransformerTest, RefusesWhatDoesNotComeOut) {
  EXPECT_THROW(ShapeOf(0, {}), UsageError);
  EXPECT_THROW(ShapeOf(std::nan(""), {}), UsageError);
  EXPECT_THROW(ShapeOf(1e9, {.layers = -1}), UsageError);
  EXPECT_THROW(ShapeOf(1e6, {.layers = 80, .hidden = 8192}), UsageError);
}

}  // namespace
}  // namespace thinwire::planner
