#include "thinwire/zero/layout.h"

#include <gtest/gtest.h>

#include "thinwire/base/error.h"

namespace thinwire::zero {
namespace {

std::string ErrorOf(const std::vector<UnitSpec>& units) {
  try {
    MakeLayout(units, 2, 2, DType::kBF16);
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

TEST(Layout, MatricesFirstThenVectorsEachInOrder) {
  const auto layouts = MakeLayout({{"a",
                                    {{"norm", {5}},
                                     {"w", {2, 3}},
                                     {"scalar", {}},
                                     {"none", {0, 7}},
                                     {"conv", {2, 2, 2}},
                                     {"no_vector", {0}},
                                     {"bias", {4}}}},
                                   {"b", {}, true, true, DType::kF32}},
                                  2, 2, DType::kBF16);
  ASSERT_EQ(layouts.size(), 2u);
  const UnitLayout& a = layouts[0];
  const std::vector<bool> matrix = {false, true, false, true, true, false, false};
  const std::vector<int64_t> offsets = {14, 0, 19, 6, 6, 20, 20};
  const std::vector<int64_t> numels = {5, 6, 1, 0, 8, 0, 4};
  ASSERT_EQ(a.places.size(), numels.size());
  for (size_t p = 0; p < numels.size(); ++p) {
    EXPECT_EQ(a.places[p].matrix, matrix[p]) << a.spec.parameters[p].name;
    EXPECT_EQ(a.places[p].offset, offsets[p]) << a.spec.parameters[p].name;
    EXPECT_EQ(a.places[p].numel, numels[p]) << a.spec.parameters[p].name;
  }
  EXPECT_EQ(a.matrix.size(), 14);
  EXPECT_EQ(a.vector.size(), 10);
  EXPECT_EQ(a.numel(), 24);
  EXPECT_EQ(a.compute, DType::kBF16);
  EXPECT_EQ(a.flat_bytes(), 48);
  EXPECT_EQ(layouts[1].compute, DType::kF32);
  EXPECT_EQ(layouts[1].numel(), 0);
}

TEST(Layout, RegionsAreCutOnTheirOwn) {
  const auto layouts = MakeLayout({{"a", {{"w", {8, 128}}, {"norm", {512}}}}}, 2, 2, DType::kBF16);
  EXPECT_EQ(layouts[0].matrix.Shard(1, 0), (comm::Range{512, 768}));
  EXPECT_EQ(layouts[0].vector.Shard(1, 0), (comm::Range{256, 384}));
}

TEST(Layout, RefusesBadParametersByName) {
  EXPECT_NE(ErrorOf({{"u", {{"w", {3, -1}}}}}).find("w: negative extent -1"), std::string::npos);
  EXPECT_NE(ErrorOf({{"u", {{"big", {INT64_MAX, 2}}}}}).find("big"), std::string::npos);
  EXPECT_NE(ErrorOf({{"u", {{"a", {INT64_MAX, 1}}, {"b", {1, 1}}}}}).find("elements of a unit"),
            std::string::npos);
  const std::string twice = ErrorOf({{"u", {{"w", {1}}}}, {"v", {{"w", {2}}}}});
  EXPECT_NE(twice.find("w of unit v"), std::string::npos) << twice;
}

}  // namespace
}  // namespace thinwire::zero
