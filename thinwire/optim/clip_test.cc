#include "thinwire/optim/clip.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "thinwire/base/error.h"

namespace thinwire::optim {
namespace {

TEST(Clip, LeavesSmallGradientsAlone) {
  EXPECT_EQ(ClipCoefficient(0, 1), 1);
  EXPECT_EQ(ClipCoefficient(0.5, 1), 1);
  EXPECT_EQ(ClipCoefficient(1, 1), 1);
  EXPECT_EQ(ClipCoefficient(1e30, 0), 1);
}

TEST(Clip, BringsLargeOnesToTheNorm) {
  EXPECT_DOUBLE_EQ(ClipCoefficient(2, 1), 1 / 2.000001);
  EXPECT_DOUBLE_EQ(ClipCoefficient(10, 2.5), 2.5 / 10.000001);
  EXPECT_LT(ClipCoefficient(std::nextafter(1.0, 2.0), 1), 1);
}

TEST(Clip, HasNoCoefficientForWhatIsNotFinite) {
  for (const double max_norm : {0.0, 1.0}) {
    EXPECT_TRUE(std::isnan(ClipCoefficient(std::numeric_limits<double>::infinity(), max_norm)));
    EXPECT_TRUE(std::isnan(ClipCoefficient(std::nan(""), max_norm)));
  }
}

TEST(Clip, RefusesNonsense) {
  EXPECT_THROW(ClipCoefficient(-1, 1), InternalError);
  EXPECT_THROW(ClipCoefficient(1, -1), InternalError);
  EXPECT_THROW(ClipCoefficient(1, std::nan("")), InternalError);
  EXPECT_THROW(ClipCoefficient(1, std::numeric_limits<double>::infinity()), InternalError);
}

}  // namespace
}  // namespace thinwire::optim
