#include "thinwire/blocks/decode.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "thinwire/base/dtype.h"
#include "thinwire/base/error.h"
#include "thinwire/blocks/decode_golden.h"

namespace thinwire::blocks {
namespace {

std::vector<std::byte> FromHex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

std::vector<uint32_t> Bits(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float x : values) bits.push_back(std::bit_cast<uint32_t>(x));
  return bits;
}

TEST(Decode, GivesTheBitsOfTheGgufPackage) {
  for (const DecodeGolden& golden : kDecodeGoldens) {
    const std::vector<std::byte> blocks = FromHex(golden.blocks);
    const std::vector<std::byte> expected = FromHex(golden.values);
    std::vector<uint32_t> bits(expected.size() / 4);
    std::memcpy(bits.data(), expected.data(), expected.size());
    for (const Isa isa : SupportedIsas()) {
      std::vector<float> values(bits.size());
      Decode({isa}, golden.type, blocks, values);
      EXPECT_EQ(Bits(values), bits) << NameOf(golden.type) << " " << NameOf(isa);
    }
  }
}

// Random bytes are random blocks, with scales of inf and NaN among them.
TEST(Decode, IsTheSameOnEveryInstructionSetAndAtEveryAddress) {
  std::mt19937 random(2);
  for (const WeightType type : AllWeightTypes()) {
    for (const int64_t count : {0, 1, 2, 3, 17}) {
      const int64_t size = count * BlockBytes(type);
      std::vector<std::byte> blocks(static_cast<size_t>(size) + 1);
      for (std::byte& b : blocks) b = static_cast<std::byte>(random());
      const std::span<const std::byte> odd = std::span<const std::byte>(blocks).subspan(1);
      std::vector<float> expected(static_cast<size_t>(count * BlockElements(type)));
      Decode({Isa::kScalar}, type, odd, expected);
      for (const Isa isa : SupportedIsas()) {
        std::vector<float> values(expected.size() + 1, 42.0f);
        Decode({isa}, type, odd, std::span(values).first(expected.size()));
        for (size_t i = 0; i < expected.size(); ++i) {
          // Which of two NaNs a difference hands on is the instruction set's choice.
          if (std::isnan(expected[i])) {
            EXPECT_TRUE(std::isnan(values[i]));
          } else {
            EXPECT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(expected[i]))
                << NameOf(type) << " " << NameOf(isa) << " element " << i;
          }
        }
        EXPECT_EQ(values.back(), 42.0f) << NameOf(type) << " wrote behind its end";
      }
    }
  }
}

TEST(Decode, WidensHalves) {
  const std::vector<uint16_t> halves = {0x3c00, 0x0001, 0x8000, 0xfc00};
  std::vector<float> values(4);
  Decode({}, WeightType::kF16, std::as_bytes(std::span(halves)), values);
  EXPECT_EQ(Bits(values), Bits(std::vector<float>{1.0f, 0x1p-24f, -0.0f,
                                                  -std::numeric_limits<float>::infinity()}));
  Decode({}, WeightType::kBF16, std::as_bytes(std::span(halves)), values);
  EXPECT_EQ(values[0], std::bit_cast<float>(0x3c000000u));
}

TEST(Decode, RefusesSizesThatDoNotFit) {
  std::vector<std::byte> blocks(18);
  std::vector<float> values(32);
  EXPECT_THROW(Decode({}, WeightType::kQ4_0, blocks, std::span(values).first(31)), UsageError);
  EXPECT_THROW(Decode({}, WeightType::kQ4_1, blocks, values), InternalError);
}

}  // namespace
}  // namespace thinwire::blocks
