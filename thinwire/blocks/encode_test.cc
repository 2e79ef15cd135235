#include "thinwire/blocks/encode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "thinwire/base/crc32c.h"
#include "thinwire/base/error.h"
#include "thinwire/blocks/decode.h"
#include "thinwire/blocks/encode_testing.h"

namespace thinwire::blocks {
namespace {

std::vector<WeightType> BlockTypes() {
  std::vector<WeightType> types;
  for (const WeightType type : AllWeightTypes()) {
    if (BlockElements(type) > 1) types.push_back(type);
  }
  return types;
}

std::vector<std::byte> Encoded(Isa isa, WeightType type, const EncodeRows& rows) {
  const auto elements = static_cast<int64_t>(rows.values.size());
  std::vector<std::byte> blocks(static_cast<size_t>(WeightBytes(type, elements, "test")));
  Encode({isa}, type, rows, blocks);
  return blocks;
}

std::vector<float> Decoded(WeightType type, std::span<const std::byte> blocks) {
  std::vector<float> values(blocks.size() / static_cast<size_t>(BlockBytes(type)) *
                            static_cast<size_t>(BlockElements(type)));
  Decode({}, type, blocks, values);
  return values;
}

// There and back.
std::vector<float> Through(WeightType type, std::span<const float> values,
                           std::span<const float> importance = {}) {
  const EncodeRows rows = {
      .values = values, .columns = static_cast<int64_t>(values.size()), .importance = importance};
  return Decoded(type, Encoded(BestIsa(), type, rows));
}

struct PeerErrors {
  WeightType type;
  double errors[kAllRows.size()];
};

// RelativeError of ggml 0.25.3's ggml_quantize_chunk, without importance, on 32 rows of 1024.
constexpr PeerErrors kGgml[] = {
    {WeightType::kQ4_0, {0.08585, 0.12962, 0.12475}},
    {WeightType::kQ4_1, {0.07858, 0.10265, 0.09487}},
    {WeightType::kQ5_0, {0.04273, 0.06596, 0.07067}},
    {WeightType::kQ5_1, {0.03780, 0.04904, 0.04519}},
    {WeightType::kQ8_0, {0.00536, 0.00844, 0.00912}},
    {WeightType::kQ2_K, {0.29684, 0.35265, 0.27069}},
    {WeightType::kQ3_K, {0.15080, 0.19231, 0.15079}},
    {WeightType::kQ4_K, {0.07166, 0.09355, 0.08709}},
    {WeightType::kQ5_K, {0.03629, 0.04749, 0.04303}},
    {WeightType::kQ6_K, {0.01785, 0.02610, 0.02706}},
    {WeightType::kIQ4_NL, {0.07638, 0.10323, 0.10383}},
    {WeightType::kMXFP4, {0.11401, 0.14367, 0.15007}},
};

TEST(Encode, MissesWeightsByLessThanGgml) {
  for (const PeerErrors& peer : kGgml) {
    for (size_t kind = 0; kind < kAllRows.size(); ++kind) {
      const std::vector<float> values = SampleRows(kAllRows[kind], 32 * 1024);
      const double error = RelativeError(values, Through(peer.type, values));
      EXPECT_LT(error, 0.985 * peer.errors[kind]) << NameOf(peer.type) << " rows " << kind;
      EXPECT_GT(error, 0.5 * peer.errors[kind]) << NameOf(peer.type) << ": too good to be true";
    }
  }
}

// Values and importances that no mathematical library had a part in.
std::vector<float> Exact(uint64_t key, int64_t size) {
  const CounterRandom random(key);
  std::vector<float> values(static_cast<size_t>(size));
  for (uint64_t i = 0; i < values.size(); ++i) {
    const auto bits = static_cast<int>(random.Bits(i) % 8192) - 4096;
    values[i] = static_cast<float>(bits) * (i % 96 < 32 ? 0x1p-12f : 0x1p-16f);
  }
  return values;
}

struct Golden {
  WeightType type;
  uint32_t plain;
  uint32_t weighted;
};

constexpr Golden kGoldens[] = {
    {WeightType::kQ4_0, 0x709976b2u, 0xcdde6d25u},   {WeightType::kQ4_1, 0xe61e3d8eu, 0xb488266au},
    {WeightType::kQ5_0, 0x459ff3efu, 0x42fd7a7eu},   {WeightType::kQ5_1, 0x99d8b09cu, 0x40c3bf37u},
    {WeightType::kQ8_0, 0xad55144cu, 0xb0ef0f9cu},   {WeightType::kQ2_K, 0x6e6e068eu, 0x7a4dafb1u},
    {WeightType::kQ3_K, 0xb34e86c1u, 0x8bfbad7au},   {WeightType::kQ4_K, 0xfa5ae954u, 0x993aff78u},
    {WeightType::kQ5_K, 0xc0ccab75u, 0x0c5e0854u},   {WeightType::kQ6_K, 0x6ab77ccfu, 0x6d07cb5au},
    {WeightType::kIQ4_NL, 0xbc38e185u, 0xd03b0366u}, {WeightType::kMXFP4, 0x4cc0bb06u, 0xc70a7d9du},
};

TEST(Encode, WritesTheSameBytesOnEveryMachine) {
  const int64_t columns = 768;
  const std::vector<float> values = Exact(1, 7 * columns);
  std::vector<float> importance = Exact(2, columns);
  for (float& x : importance) x = std::fabs(x);
  for (const Golden& golden : kGoldens) {
    for (const Isa isa : SupportedIsas()) {
      EXPECT_EQ(Crc32c(Encoded(isa, golden.type, {values, columns})), golden.plain)
          << NameOf(golden.type) << " " << NameOf(isa);
      EXPECT_EQ(Crc32c(Encoded(isa, golden.type, {values, columns, importance})), golden.weighted)
          << NameOf(golden.type) << " " << NameOf(isa);
    }
  }
}

TEST(Encode, TreatsEveryBlockAlone) {
  const std::vector<float> importance = SampleRows(Rows::kNormal, 512);
  for (const WeightType type : BlockTypes()) {
    const int64_t columns = 2 * BlockElements(type);
    const std::vector<float> values = SampleRows(Rows::kHeavyTail, 11 * columns);
    std::vector<float> weights(importance.begin(), importance.begin() + columns);
    for (float& x : weights) x = std::fabs(x);
    const std::vector<std::byte> all = Encoded(BestIsa(), type, {values, columns, weights});
    for (int64_t count = 1; count <= 11; ++count) {
      const std::span<const float> some =
          std::span(values).subspan(static_cast<size_t>((11 - count) * columns));
      const std::vector<std::byte> part = Encoded(BestIsa(), type, {some, columns, weights});
      EXPECT_TRUE(std::equal(part.rbegin(), part.rend(), all.rbegin()))
          << NameOf(type) << ", the last " << count << " of 11 rows";
    }
  }
}

TEST(Encode, CountsErrorsByImportance) {
  std::vector<float> importance(1024);
  for (size_t i = 0; i < importance.size(); ++i) importance[i] = i % 8 == 0 ? 1.0f : 0.01f;
  const std::vector<float> values = SampleRows(Rows::kNormal, 1024);
  const auto error = [&](std::span<const float> decoded) {
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      sum += double{importance[i]} * std::pow(double{values[i]} - double{decoded[i]}, 2);
    }
    return sum;
  };
  for (const WeightType type : BlockTypes()) {
    // A power of two for a scale leaves little to choose.
    const double least_gain = type == WeightType::kMXFP4 ? 1.0 : 0.9;
    EXPECT_LT(error(Through(type, values, importance)), least_gain * error(Through(type, values)))
        << NameOf(type);
  }
  const std::vector<float> nothing(1024, 0.0f);
  for (const WeightType type : BlockTypes()) {
    for (const float x : Through(type, values, nothing)) EXPECT_TRUE(std::isfinite(x));
  }
}

TEST(Encode, KeepsZeros) {
  for (const WeightType type : AllWeightTypes()) {
    for (const float zero : {0.0f, -0.0f}) {
      const std::vector<float> values(256, zero);
      for (const float x : Through(type, values)) EXPECT_EQ(x, 0.0f) << NameOf(type);
    }
  }
}

TEST(Encode, KeepsConstants) {
  for (const WeightType type : BlockTypes()) {
    if (type == WeightType::kMXFP4) continue;
    // Q6_K divides by 128 * 32: 0.0123 leaves 50 units of fp16's subnormals for the factor.
    const float tolerance = type == WeightType::kQ6_K ? 0x1p-7f : 0x1p-10f;
    for (const float constant : {1.0f, -1.0f, 0.37f, -0.0123f, 1000.0f}) {
      const std::vector<float> values(256, constant);
      for (const float x : Through(type, values)) {
        EXPECT_NEAR(x, constant, std::fabs(constant) * tolerance) << NameOf(type);
      }
    }
  }
  // Constants at most a third of the step from 4 to 6 away.
  for (const float x : Through(WeightType::kMXFP4, std::vector<float>(32, -6.0f))) {
    EXPECT_EQ(x, -6.0f);
  }
}

TEST(Encode, KeepsOneLargeWeight) {
  for (const WeightType type : BlockTypes()) {
    for (const size_t place : {0u, 31u, 32u, 100u, 255u}) {
      for (const float outlier : {5.0f, -5.0f}) {
        std::vector<float> values = SampleRows(Rows::kNormal, 256);
        values[place] = outlier;
        const std::vector<float> decoded = Through(type, values);
        EXPECT_NEAR(decoded[place], outlier, type == WeightType::kMXFP4 ? 1.0f : 0.6f)
            << NameOf(type) << " at " << place;
      }
    }
  }
}

TEST(Encode, MakesNothingOfWeightsTooSmallForAHalf) {
  for (const WeightType type : BlockTypes()) {
    for (const float tiny : {1e-45f, 1e-39f, 1e-20f}) {
      std::vector<float> values(256, tiny);
      values[7] = -tiny;
      for (const float x : Through(type, values)) EXPECT_LE(std::fabs(x), 2 * tiny) << NameOf(type);
    }
  }
  // Here the scale is subnormal, 17 or so units of 2^-24 for 8 codes.
  std::vector<float> small(256);
  for (size_t i = 0; i < small.size(); ++i) small[i] = 1e-6f * static_cast<float>(i % 17);
  for (const WeightType type : BlockTypes()) {
    EXPECT_LT(RelativeError(small, Through(type, small)), 0.35) << NameOf(type);
  }
}

TEST(Encode, HoldsWhatItSaysAndRefusesMore) {
  for (const WeightType type : AllWeightTypes()) {
    const float largest = LargestEncodable(type);
    std::vector<float> values(512, 0.5f * largest);
    values[3] = largest;
    values[300] = -largest;
    const std::vector<float> decoded = Through(type, values);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(decoded[i] / largest, values[i] / largest, 0.26f) << NameOf(type) << " " << i;
    }
    if (largest == std::numeric_limits<float>::max()) continue;
    values[300] = -1.001f * largest;
    EXPECT_THROW(Through(type, values), UsageError) << NameOf(type);
  }
}

std::string MessageOf(WeightType type, const EncodeRows& rows) {
  try {
    Encoded(BestIsa(), type, rows);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Encode, NamesTheWeightThatItRefuses) {
  for (const WeightType type : AllWeightTypes()) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      std::vector<float> values(4 * 256, 1.0f);
      values[2 * 256 + 17] = bad;
      const std::string message = MessageOf(type, {values, 256, {}, "blk.0.attn_q.weight", 100});
      EXPECT_NE(message.find("blk.0.attn_q.weight: row 102, column 17"), std::string::npos)
          << NameOf(type) << ": " << message;
    }
  }
  std::vector<float> values(32, 1e6f);
  EXPECT_NE(MessageOf(WeightType::kQ4_0, {values, 32}).find("Q4_0 holds at most 458528"),
            std::string::npos);
  const std::vector<float> importance = {1.0f, -1.0f};
  EXPECT_NE(MessageOf(WeightType::kF32, {{values.data(), 2}, 2, importance}).find("column 1"),
            std::string::npos);
}

// A file that is converted back and forth does not wear off.
TEST(Encode, FindsTheBlocksThatValuesCameFrom) {
  for (const WeightType type : BlockTypes()) {
    const std::vector<float> values = SampleRows(Rows::kNormal, 64 * 256);
    const std::vector<float> once = Through(type, values);
    EXPECT_LT(RelativeError(once, Through(type, once)), 0.2 * RelativeError(values, once))
        << NameOf(type);
  }
}

}  // namespace
}  // namespace thinwire::blocks
