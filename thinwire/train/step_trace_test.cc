#include "thinwire/train/step_trace.h"

#include <gtest/gtest.h>

#include "thinwire/base/error.h"

namespace thinwire::train {
namespace {

TEST(TracedSteps, ReadsARange) {
  EXPECT_EQ(TracedSteps("5..8", 0).first, 5);
  EXPECT_EQ(TracedSteps("5..8", 0).last, 8);
  EXPECT_EQ(TracedSteps("12", 0).first, 12);
  EXPECT_EQ(TracedSteps("12", 0).last, 12);
}

TEST(TracedSteps, LeavesTheColdOnesOfARunOut) {
  EXPECT_EQ(TracedSteps("", 100).first, 103);
  EXPECT_EQ(TracedSteps("", 100).last, 106);
}

TEST(TracedSteps, RefusesWhatIsNone) {
  for (const char* text :
       {"8..5", "0..3", "..", "3..", "..3", "a", "1...3", "-1..3", "1..99999999999999999999"}) {
    EXPECT_THROW(TracedSteps(text, 0), UsageError) << text;
  }
}

}  // namespace
}  // namespace thinwire::train
