#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/codec/by_name.h"

namespace thinwire::codec {
namespace {

// What a receiver of differences does: the same as decoding to fp32 and adding, for every format,
// also where runs are longer than a tile and end inside of a block.
TEST(Codec, DecodeAddAddsWhatDecodeGives) {
  const std::vector<int64_t> runs{0, 1, 31, 5000, 128, 21001};
  const int64_t size = 26161;
  std::vector<float> values(static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i) * 0.7f) * static_cast<float>(1 + i % 5);
  }
  for (const char* name : {"fp32", "bf16", "int8/128", "int4/2048/max0.75", "int3/96",
                           "ternary/128", "rot32+int4/128", "rot128+ternary/128/rms1.22"}) {
    const auto codec = ByName(name, "test");
    std::vector<std::byte> message(static_cast<size_t>(codec->EncodedBytes(runs)));
    codec->Encode({}, std::span<const float>(values), runs, message);
    std::vector<float> decoded(values.size());
    codec->Decode({}, message, runs, std::span(decoded));
    std::vector<BF16> sum(values.size());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = ToBF16(std::cos(static_cast<float>(i)));
    std::vector<BF16> expected = sum;
    for (size_t i = 0; i < sum.size(); ++i) {
      expected[i] = ToBF16(ToFloat(expected[i]) + decoded[i]);
    }
    for (const Isa isa : SupportedIsas()) {
      std::vector<BF16> got = sum;
      codec->DecodeAdd({isa}, message, runs, std::span(got));
      for (size_t i = 0; i < sum.size(); ++i) {
        ASSERT_EQ(got[i].bits, expected[i].bits) << name << " " << NameOf(isa) << " " << i;
      }
    }
    std::vector<float> rest(values), owed;
    for (size_t i = 0; i < values.size(); ++i) owed.push_back(values[i] - decoded[i]);
    codec->DecodeSubtract({}, message, runs, rest);
    ASSERT_EQ(rest, owed) << name;
    std::vector<BF16> got = sum;
    message.pop_back();
    EXPECT_THROW(codec->DecodeAdd({}, message, runs, std::span(got)), PeerError) << name;
    EXPECT_THROW(codec->DecodeSubtract({}, message, runs, rest), PeerError) << name;
    EXPECT_EQ(rest, owed);
    EXPECT_EQ(got[7].bits, sum[7].bits) << "a message that was refused changed the target";
  }
}

}  // namespace
}  // namespace thinwire::codec
