#include "thinwire/base/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace thinwire {
namespace {

TEST(MemoryPlan, ArraysAreAlignedZeroedAndApart) {
  MemoryPlan plan;
  std::span<float> a;
  std::span<std::byte> b, empty;
  std::span<int64_t> c;
  plan.Add("a", 3, a);
  plan.Add("bytes", 65, b);
  plan.Add("bytes", 0, empty);
  plan.Add("c", 1000, c);
  const int64_t bytes = plan.bytes();
  EXPECT_EQ(bytes, 64 + 128 + 64 + 8064);
  ASSERT_EQ(plan.parts().size(), 3u);
  EXPECT_EQ(plan.parts()[1].what, "bytes");
  EXPECT_EQ(plan.parts()[1].bytes, 192);
  const PlannedMemory memory = plan.Take();
  EXPECT_EQ(static_cast<int64_t>(memory.bytes().size()), bytes);
  EXPECT_EQ(a.size(), 3u);
  EXPECT_EQ(b.size(), 65u);
  EXPECT_EQ(empty.size(), 0u);
  EXPECT_EQ(c.size(), 1000u);
  for (const void* start : {static_cast<const void*>(a.data()), static_cast<const void*>(b.data()),
                            static_cast<const void*>(c.data())}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(start) % 64, 0u);
  }
  EXPECT_TRUE(std::ranges::all_of(memory.bytes(), [](std::byte x) { return x == std::byte{0}; }));
  std::ranges::fill(a, 1.0f);
  std::ranges::fill(b, std::byte{2});
  std::ranges::fill(c, 3);
  EXPECT_TRUE(std::ranges::all_of(a, [](float x) { return x == 1; }));
  EXPECT_TRUE(std::ranges::all_of(b, [](std::byte x) { return x == std::byte{2}; }));
}

TEST(MemoryPlan, SizesThatDoNotFitAreRefusedByName) {
  MemoryPlan plan;
  std::span<float> array;
  EXPECT_THROW(plan.Add("keys", INT64_MAX / 2, array), UsageError);
  EXPECT_THROW(plan.Add("keys", -1, array), UsageError);
  std::span<std::byte> bytes;
  plan.Add("keys", INT64_MAX / 2, bytes);
  EXPECT_THROW(plan.Add("values", INT64_MAX / 2 + 1, bytes), UsageError);
}

TEST(PlannedMemory, MovesKeepTheAddress) {
  PlannedMemory a(100);
  std::byte* const data = a.bytes().data();
  PlannedMemory b(std::move(a));
  EXPECT_EQ(b.bytes().data(), data);
  PlannedMemory c;
  c = std::move(b);
  EXPECT_EQ(c.bytes().data(), data);
  EXPECT_TRUE(PlannedMemory(0).bytes().empty());
}

}  // namespace
}  // namespace thinwire
