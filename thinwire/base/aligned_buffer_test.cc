#include "thinwire/base/aligned_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace thinwire {
namespace {

TEST(AlignedBuffer, IsZeroedAndAligned) {
  for (const int64_t bytes : {1, 63, 64, 65, 4097}) {
    const AlignedBuffer buffer(bytes);
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kAlignment, 0u);
    EXPECT_TRUE(std::all_of(buffer.bytes().begin(), buffer.bytes().end(),
                            [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST(AlignedBuffer, EmptyHoldsNothing) {
  for (const AlignedBuffer& buffer : {AlignedBuffer(), AlignedBuffer(0)}) {
    EXPECT_EQ(buffer.size(), 0);
    EXPECT_EQ(buffer.data(), nullptr);
    EXPECT_TRUE(buffer.As<float>().empty());
  }
}

TEST(AlignedBuffer, ViewsWholeElements) {
  AlignedBuffer buffer(10);
  EXPECT_EQ(buffer.As<float>().size(), 2u);
  buffer.As<uint16_t>()[4] = 0xabcd;
  EXPECT_EQ(buffer.bytes()[9], std::byte{0xab});
}

TEST(AlignedBuffer, MovesAndLeavesNothingBehind) {
  AlignedBuffer from(8);
  std::byte* const data = from.data();
  const AlignedBuffer to(std::move(from));
  EXPECT_EQ(to.data(), data);
  EXPECT_EQ(to.size(), 8);
  EXPECT_EQ(from.data(), nullptr);
  EXPECT_EQ(from.size(), 0);  // else bytes() of the moved-from buffer spans a null pointer
}

TEST(AlignedBuffer, RefusesSizesThatDoNotFit) {
  EXPECT_THROW(AlignedBuffer(-1), InternalError);
  EXPECT_THROW(AlignedBuffer(INT64_MAX), InternalError);
}

}  // namespace
}  // namespace thinwire
