#include "thinwire/base/crc32c.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "thinwire/base/random.h"

namespace thinwire {
namespace {

using Crc = uint32_t (*)(std::span<const std::byte>, uint32_t);

TEST(Crc32c, KnownValues) {
  for (const Crc crc : {Crc(&Crc32c), Crc(&Crc32cPortable)}) {
    const auto of = [&](std::string_view text) { return crc(std::as_bytes(std::span(text)), 0); };
    EXPECT_EQ(of(""), 0u);
    EXPECT_EQ(of("123456789"), 0xe3069283u);  // the check value of the CRC catalogue
    // RFC 3720, appendix B.4.
    EXPECT_EQ(of(std::string(32, '\0')), 0x8a9136aau);
    EXPECT_EQ(of(std::string(32, '\xff')), 0x62a8ab43u);
  }
}

TEST(Crc32c, AnySplitAndBothImplementationsAgree) {
  const CounterRandom random(7);
  std::vector<std::byte> bytes(257);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(random.Bits(i));
  const std::span<const std::byte> all = bytes;
  const uint32_t whole = Crc32c(all);
  for (size_t cut = 0; cut <= all.size(); ++cut) {
    EXPECT_EQ(Crc32c(all.subspan(cut), Crc32cPortable(all.first(cut))), whole) << cut;
    EXPECT_EQ(Crc32cPortable(all.subspan(cut), Crc32c(all.first(cut))), whole) << cut;
  }
}

}  // namespace
}  // namespace thinwire
