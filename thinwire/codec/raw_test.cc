#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "thinwire/base/random.h"
#include "thinwire/codec/codec.h"

namespace thinwire::codec {
namespace {

constexpr std::array<DType, 3> kDTypes{DType::kF32, DType::kBF16, DType::kF16};

std::vector<std::byte> Encoded(DType dtype, std::span<const float> values, Runs runs) {
  std::vector<std::byte> out(static_cast<size_t>(Raw(dtype).EncodedBytes(runs)));
  Raw(dtype).Encode({}, values, runs, out);
  return out;
}

std::string Hex(std::span<const std::byte> bytes) {
  std::string hex;
  for (const std::byte b : bytes) {
    for (const int nibble : {std::to_integer<int>(b) >> 4, std::to_integer<int>(b) & 15}) {
      hex += "0123456789abcdef"[nibble];
    }
  }
  return hex;
}

std::vector<float> Normals(int64_t size, uint64_t key) {
  std::vector<float> values(static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(CounterRandom(key).Normal(i));
  }
  return values;
}

TEST(Raw, GoldenBytes) {
  const std::vector<float> values{
      1.0f, -2.5f, 0.1f, -0.0f, 65504.0f, 0x1p-24f, std::numeric_limits<float>::infinity()};
  const std::array<int64_t, 3> runs{3, 0, 4};
  EXPECT_EQ(Hex(Encoded(DType::kF32, values, runs)),
            "0000803f000020c0cdcccc3d0000008000e07f4700008033"
            "0000807f");
  EXPECT_EQ(Hex(Encoded(DType::kBF16, values, runs)), "803f20c0cd3d008080478033807f");
  EXPECT_EQ(Hex(Encoded(DType::kF16, values, runs)), "003c00c1662e0080ff7b0100007c");
}

TEST(Raw, NamesAndSizes) {
  const std::array<int64_t, 3> runs{5, 0, 7};
  EXPECT_EQ(Raw(DType::kF32).name(), "fp32");
  EXPECT_EQ(Raw(DType::kBF16).name(), "bf16");
  EXPECT_EQ(Raw(DType::kF16).name(), "fp16");
  EXPECT_EQ(Raw(DType::kF32).EncodedBytes(runs), 48);
  EXPECT_EQ(Raw(DType::kBF16).EncodedBytes(runs), 24);
  EXPECT_EQ(Raw(DType::kF16).EncodedBytes({}), 0);
  EXPECT_THROW(Raw(DType::kF32).EncodedBytes(std::array{int64_t{INT64_MAX}}), UsageError);
  EXPECT_THROW(Raw(DType::kF16).EncodedBytes(std::array{int64_t{INT64_MAX}, int64_t{1}}),
               UsageError);
}

TEST(Raw, RoundTripsWhatTheFormatHolds) {
  const std::vector<float> values = Normals(1001, 1);
  const std::array<int64_t, 1> runs{1001};
  for (const DType dtype : kDTypes) {
    const std::vector<std::byte> once = Encoded(dtype, values, runs);
    std::vector<float> decoded(values.size());
    Raw(dtype).Decode({}, once, runs, std::span<float>(decoded));
    EXPECT_EQ(Hex(Encoded(dtype, decoded, runs)), Hex(once));
    EXPECT_TRUE(dtype != DType::kF32 || decoded == values);
  }
}

// Messages alternate with this rank's own elements; the count passes the size of a group.
TEST(Raw, DecodeSumAddsInOrder) {
  constexpr int64_t kSize = 133;
  const std::array<int64_t, 2> runs{100, 33};
  for (const DType dtype : kDTypes) {
    for (const size_t count : {0u, 1u, 2u, 15u, 16u, 17u, 33u, 200u}) {
      std::vector<std::vector<float>> values;
      std::vector<std::vector<std::byte>> messages;
      std::vector<Term> terms;
      for (size_t t = 0; t < count; ++t) {
        values.push_back(Normals(kSize, t));
        messages.push_back(Encoded(dtype, values[t], runs));
        if (t % 3 == 1) {
          terms.push_back({.encoded = {}, .own = std::span<const float>(values[t])});
        } else {
          terms.push_back({.encoded = messages[t], .own = {}});
          Raw(dtype).Decode({}, messages[t], runs, std::span<float>(values[t]));
        }
      }
      for (const bool accumulate : {false, true}) {
        std::vector<float> out = Normals(kSize, 999);
        std::vector<float> wanted = out;
        if (!accumulate) wanted.assign(wanted.size(), -0.0f);  // -0 + x is x, also for x = -0
        if (!accumulate && count == 0) wanted.assign(wanted.size(), 0.0f);
        for (const auto& term : values) {
          for (size_t i = 0; i < wanted.size(); ++i) wanted[i] += term[i];
        }
        Raw(dtype).DecodeSum({}, terms, runs, accumulate, out);
        EXPECT_EQ(out, wanted) << NameOf(dtype) << " " << count << " terms";
      }
    }
  }
}

TEST(Raw, AWrongMessageSizeIsThePeersError) {
  const std::array<int64_t, 1> runs{4};
  std::vector<float> out(4, 7.0f);
  const std::vector<float> own(4, 1.0f);
  for (const DType dtype : kDTypes) {
    for (const size_t bytes : {size_t{0}, size_t{4}, static_cast<size_t>(SizeOf(dtype)) * 4 + 1}) {
      const std::vector<std::byte> message(bytes);
      EXPECT_THROW(Raw(dtype).Decode({}, message, runs, std::span<float>(out)), PeerError);
      const std::array<Term, 2> terms{Term{{}, std::span<const float>(own)}, Term{message, {}}};
      EXPECT_THROW(Raw(dtype).DecodeSum({}, terms, runs, true, out), PeerError);
    }
  }
  EXPECT_EQ(out, std::vector<float>(4, 7.0f));
}

TEST(Raw, EmptyPieces) {
  for (const DType dtype : kDTypes) {
    Raw(dtype).Encode({}, ConstArray(nullptr, DType::kF32, 0), {}, {});
    Raw(dtype).Decode({}, {}, {}, Array(nullptr, DType::kBF16, 0));
    const Term empty;
    Raw(dtype).DecodeSum({}, std::span(&empty, 1), {}, false, {});
  }
}

}  // namespace
}  // namespace thinwire::codec
