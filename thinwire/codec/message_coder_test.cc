#include "thinwire/codec/message_coder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "thinwire/base/random.h"
#include "thinwire/codec/by_name.h"
#include "thinwire/codec/scale_coder.h"

namespace thinwire::codec {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::array<const char*, 7> kNames{"int8/128/coded",
                                            "int4/128/coded",
                                            "int4/2048/max0.75/coded",
                                            "int3/32/coded",
                                            "ternary/128/coded",
                                            "ternary/128/rms1.22/coded",
                                            "rot32+int4/128/searched/coded"};

std::vector<float> Normals(int64_t size) {
  std::vector<float> values(static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(CounterRandom(9).Normal(i));
  }
  return values;
}

int64_t SumOf(Runs runs) {
  int64_t sum = 0;
  for (const int64_t run : runs) sum += run;
  return sum;
}

Bytes Encoded(const Codec& codec, std::span<const float> values, Runs runs) {
  Bytes message(static_cast<size_t>(codec.EncodedBytes(runs)));
  codec.Encode({}, values, runs, message);
  return message;
}

Bytes Coded(const Codec& codec, const Bytes& message, Runs runs, Isa isa = BestIsa()) {
  Bytes coded(static_cast<size_t>(codec.coder()->MostBytes(runs)), std::byte{0xee});
  coded.resize(static_cast<size_t>(codec.coder()->Code({isa}, message, runs, coded)));
  return coded;
}

void ExpectRoundTrip(const Codec& codec, const Bytes& message, Runs runs) {
  const Bytes coded = Coded(codec, message, runs, Isa::kScalar);
  for (const Isa isa : SupportedIsas()) {
    ASSERT_EQ(Coded(codec, message, runs, isa), coded) << codec.name() << " " << NameOf(isa);
    Bytes more = coded, back(message.size());
    more.resize(coded.size() + 5, std::byte{7});
    ASSERT_EQ(codec.coder()->Expand({isa}, more, runs, back), std::ssize(coded)) << codec.name();
    ASSERT_EQ(back, message) << codec.name() << " " << NameOf(isa);
  }
}

TEST(MessageCoder, IsThereWhereTheNameSaysSo) {
  for (const char* name : kNames) {
    const std::string coded(name), plain = coded.substr(0, coded.size() - 6);
    EXPECT_NE(ByName(coded, "hop")->coder(), nullptr);
    EXPECT_EQ(ByName(plain, "hop")->coder(), nullptr);
    const std::vector<int64_t> runs{1000, 77};
    const std::vector<float> values = Normals(1077);
    EXPECT_EQ(Encoded(*ByName(coded, "hop"), values, runs),
              Encoded(*ByName(plain, "hop"), values, runs));
  }
  EXPECT_EQ(Raw(DType::kF32).coder(), nullptr);
}

TEST(MessageCoder, RoundTripsWhateverTheRuns) {
  const std::vector<std::vector<int64_t>> kRuns{
      {}, {0}, {1}, {5, 0, 1}, {127}, {128, 129, 3}, {20000, 1, 6001}, {300'000, 31}};
  for (const char* name : kNames) {
    const auto codec = ByName(name, "hop");
    for (const std::vector<int64_t>& runs : kRuns) {
      const Bytes message = Encoded(*codec, Normals(SumOf(runs)), runs);
      EXPECT_LE(std::ssize(Coded(*codec, message, runs)), codec->coder()->MostBytes(runs));
      ExpectRoundTrip(*codec, message, runs);
    }
  }
}

TEST(MessageCoder, RoundTripsBlocksOfNanInfAndZeros) {
  const std::vector<int64_t> runs{40'000};
  std::vector<float> values = Normals(40'000);
  for (size_t i = 0; i < values.size(); ++i) {
    if (i / 700 % 3 == 1) values[i] = 0;
    if (i % 9001 == 0) values[i] = std::nanf("");
    if (i % 12'007 == 0) values[i] = std::numeric_limits<float>::infinity();
    if (i / 5000 == 3) values[i] *= 1e30f;
  }
  for (const char* name : kNames) {
    const auto codec = ByName(name, "hop");
    ExpectRoundTrip(*codec, Encoded(*codec, values, runs), runs);
  }
}

// Any bytes of the right size are a message, so all must come back.
TEST(MessageCoder, RoundTripsMessagesThatNoEncoderMakes) {
  const std::vector<int64_t> runs{70'000, 333};
  for (const char* name : kNames) {
    const auto codec = ByName(name, "hop");
    Bytes noise(static_cast<size_t>(codec->EncodedBytes(runs)));
    for (size_t i = 0; i < noise.size(); ++i)
      noise[i] = static_cast<std::byte>(CounterRandom(2).Bits(i));
    EXPECT_LE(std::ssize(Coded(*codec, noise, runs)), codec->coder()->MostBytes(runs));
    ExpectRoundTrip(*codec, noise, runs);
  }
}

double BitsOf(const char* name, std::span<const float> values) {
  const auto codec = ByName(name, "hop");
  const std::vector<int64_t> runs{std::ssize(values)};
  const Bytes coded = Coded(*codec, Encoded(*codec, values, runs), runs);
  return 8.0 * static_cast<double>(coded.size()) / static_cast<double>(values.size());
}

// With scales, which take 0.125 bit uncoded in blocks of 128: docs/recipes.md has these numbers.
TEST(MessageCoder, BitsPerNormallyDistributedElement) {
  const std::vector<float> values = Normals(1 << 20);
  const std::pair<const char*, double> kBars[] = {
      {"int8/128/coded", 7.63}, {"int4/128/coded", 3.65},    {"int4/2048/max0.75/coded", 3.63},
      {"int3/128/coded", 2.83}, {"ternary/128/coded", 1.55}, {"ternary/128/rms1.22/coded", 1.60}};
  for (const auto& [name, bar] : kBars) {
    const double bits = BitsOf(name, values);
    EXPECT_LT(bits, bar) << name;
    EXPECT_GT(bits, bar - 0.03) << name;  // a better coder lowers the bars, here and in the docs
  }
}

TEST(MessageCoder, DamageIsAnErrorOrAnotherMessage) {
  const std::vector<int64_t> runs{30'000};
  for (const char* name : kNames) {
    const auto codec = ByName(name, "hop");
    const Bytes message = Encoded(*codec, Normals(30'000), runs);
    const Bytes coded = Coded(*codec, message, runs);
    int noticed = 0;
    for (uint64_t trial = 0; trial < 300; ++trial) {
      const CounterRandom random(trial);
      Bytes damaged = coded, back(message.size());
      damaged[random.Bits(0) % damaged.size()] ^= static_cast<std::byte>(1 + random.Bits(1) % 255);
      if (trial % 3 == 0) damaged.resize(random.Bits(2) % damaged.size());
      damaged.shrink_to_fit();
      try {
        codec->coder()->Expand({}, damaged, runs, back);
      } catch (const PeerError& error) {
        EXPECT_NE(std::string(error.what()).find("is damaged"), std::string::npos);
        ++noticed;
      }
    }
    EXPECT_GT(noticed, 150) << name;
  }
}

TEST(ScaleCoder, RoundTripsEveryCountAndTakesLess) {
  Bytes scales(2 * 20'000);
  for (size_t i = 0; i < scales.size() / 2; ++i) {
    // Like the largest magnitudes of blocks, some of them 0.
    const double x = 2.7 + 0.3 * CounterRandom(4).Normal(i);
    const uint32_t bits = i % 37 == 0 ? 0 : __builtin_bit_cast(uint32_t, static_cast<float>(x));
    scales[2 * i] = static_cast<std::byte>(bits >> 16);
    scales[2 * i + 1] = static_cast<std::byte>(bits >> 24);
  }
  for (const bool is_signed : {false, true}) {
    if (is_signed) {
      for (size_t i = 1; i < scales.size(); i += 4) scales[i] |= std::byte{0x80};
    }
    for (const int64_t count : {0, 1, 2, 7, 8, 9, 200, 8191, 8192, 8193, 20'000}) {
      const Bytes in(scales.begin(), scales.begin() + 2 * count);
      Bytes out(static_cast<size_t>(MostScaleBytes(count))), back(in.size());
      out.resize(static_cast<size_t>(CompressScales({}, in, out)));
      ASSERT_EQ(ExpandScales({}, out, back), std::ssize(out)) << count;
      ASSERT_EQ(back, in) << count;
      if (count < 8191) continue;
      EXPECT_LT(std::ssize(out), count * (is_signed ? 9 : 8) / 8) << count;
    }
  }
}

// Three scales 1, 1.5 and -1.5 (0x3f80, 0x3fc0, 0xbfc0): distances 0x7f01, 0x81, 0x71 by hand.
TEST(ScaleCoder, GoldenBytes) {
  const Bytes scales{std::byte{0x80}, std::byte{0x3f}, std::byte{0xc0},
                     std::byte{0x3f}, std::byte{0xc0}, std::byte{0xbf}};
  Bytes out(static_cast<size_t>(MostScaleBytes(3)));
  out.resize(static_cast<size_t>(CompressScales({}, scales, out)));
  const Bytes wanted{std::byte{3},
                     {},
                     {},
                     {},
                     std::byte{1},
                     std::byte{0x81},
                     std::byte{0x71},
                     std::byte{3},
                     {},
                     {},
                     {},
                     std::byte{0x7f},
                     {},
                     {},
                     std::byte{1},
                     std::byte{4}};
  EXPECT_EQ(out, wanted);
}

}  // namespace
}  // namespace thinwire::codec
