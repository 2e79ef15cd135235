#include "thinwire/base/checked.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>

namespace thinwire {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TEST(Checked, ComputesWhatFits) {
  EXPECT_EQ(CheckedMul(kMax, 1, "x"), kMax);
  EXPECT_EQ(CheckedMul(int64_t{1} << 31, int64_t{1} << 31, "x"), int64_t{1} << 62);
  EXPECT_EQ(CheckedMul(0, kMin, "x"), 0);
  EXPECT_EQ(CheckedAdd(kMax - 1, 1, "x"), kMax);
  EXPECT_EQ(CheckedAdd(kMax, kMin, "x"), -1);
}

TEST(Checked, RefusesWhatDoesNot) {
  EXPECT_THROW(CheckedMul(int64_t{1} << 32, int64_t{1} << 31, "x"), UsageError);
  EXPECT_THROW(CheckedMul(kMin, -1, "x"), UsageError);
  EXPECT_THROW(CheckedAdd(kMax, 1, "x"), UsageError);
  EXPECT_THROW(CheckedAdd(kMin, -1, "x"), UsageError);
  try {
    CheckedMul(kMax, 2, "tensor w");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()), "tensor w: 9223372036854775807 x 2 does not fit 64 bits");
  }
}

TEST(Checked, ElementsOfAShape) {
  EXPECT_EQ(CheckedNumel({}, "scalar"), 1);
  EXPECT_EQ(CheckedNumel(std::array<int64_t, 3>{2, 3, 5}, "x"), 30);
  EXPECT_EQ(CheckedNumel(std::array<int64_t, 3>{2, 0, 5}, "x"), 0);
  EXPECT_THROW(CheckedNumel(std::array<int64_t, 2>{2, -3}, "x"), UsageError);
  EXPECT_THROW(CheckedNumel(std::array<int64_t, 2>{kMax, 2}, "x"), UsageError);
}

}  // namespace
}  // namespace thinwire
