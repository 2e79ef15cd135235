#include "thinwire/base/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace thinwire {
namespace {

TEST(Nearest, DistancesBetweenWords) {
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("steps", "step"), 1);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
}

TEST(Nearest, SuggestsWhatIsNear) {
  const std::vector<std::string> known = {"zero3", "qwz", "hpz", "qwz+hpz", "zero++"};
  EXPECT_EQ(DidYouMean("zero+", known), "; did you mean zero++?");
  EXPECT_EQ(DidYouMean("ZeRO++", known), "; did you mean zero++?");
  EXPECT_EQ(DidYouMean("ZeRO-3", known), "; did you mean zero3?");
  EXPECT_EQ(DidYouMean("zeropp", known), "; did you mean zero++?");
  EXPECT_EQ(DidYouMean("hzp", known), "; did you mean hpz?");
  EXPECT_EQ(DidYouMean("qwz+hzp", known), "; did you mean qwz+hpz?");
  EXPECT_EQ(DidYouMean("bananas", known), "");
  EXPECT_EQ(DidYouMean("", known), "");
  EXPECT_EQ(DidYouMean("zero", {}), "");
}

}  // namespace
}  // namespace thinwire
