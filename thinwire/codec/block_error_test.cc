// How far decoded elements are from what was encoded, against references in fp64.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "thinwire/base/random.h"
#include "thinwire/codec/block.h"
#include "thinwire/codec/by_name.h"

namespace thinwire::codec {
namespace {

using kernels::ScaleChoice;

double StudentT3(const CounterRandom& random, uint64_t i) {
  double squares = 0;
  for (uint64_t k = 1; k <= 3; ++k) squares += std::pow(random.Normal(4 * i + k), 2);
  return random.Normal(4 * i) / std::sqrt(squares / 3);
}

std::vector<float> Sample(std::string_view kind, size_t size) {
  const CounterRandom random(HashBytes(kind));
  std::vector<float> x(size, 0.37f);
  for (size_t i = 0; i < size; ++i) {
    if (kind == "Gaussian") x[i] = static_cast<float>(random.Normal(i));
    if (kind == "Student-t(3)") x[i] = static_cast<float>(StudentT3(random, i));
    if (kind == "spikes") {
      x[i] = static_cast<float>(random.Normal(i) * (random.Uniform(~i) < 0.005 ? 20 : 1));
    }
    if (kind == "outlier") x[i] = i % 1000 == 7 ? 1e6f : static_cast<float>(random.Normal(i));
  }
  return x;
}

std::vector<float> RoundTrip(const Codec& codec, std::span<const float> x, Runs runs) {
  std::vector<std::byte> message(static_cast<size_t>(codec.EncodedBytes(runs)));
  codec.Encode({}, x, runs, message);
  std::vector<float> decoded(x.size());
  codec.Decode({}, message, runs, std::span<float>(decoded));
  return decoded;
}

// The bound of kernels/quantize.h, from the block alone: half a scale, and for int4 on the side
// opposite to the largest element what +7 cannot reach.
void ExpectWithinBound(std::span<const float> x, std::span<const float> decoded, bool int8) {
  double extreme = 0;
  for (const float value : x) {
    if (std::abs(static_cast<double>(value)) > std::abs(extreme)) {
      extreme = static_cast<double>(value);
    }
  }
  const double scale = std::abs(extreme) / (int8 ? 127 : 8) * (1 + 0x1p-7);
  for (size_t i = 0; i < x.size(); ++i) {
    const double value = static_cast<double>(x[i]);
    const bool opposite =
        !int8 && value * extreme < 0 && std::abs(value) > 0.93 * std::abs(extreme);
    const double bound = opposite ? scale : (0.5 + 0x1p-16) * scale;
    ASSERT_LE(std::abs(value - static_cast<double>(decoded[i])), bound) << value;
  }
}

TEST(BlockError, StaysWithinTheBoundOfEachBlock) {
  const std::array<int64_t, 3> runs{5000, 1, 2999};
  for (const std::string kind : {"Gaussian", "Student-t(3)", "constant", "outlier"}) {
    const std::vector<float> x = Sample(kind, 8000);
    for (const int64_t block : {32, 128, 4096}) {
      for (const bool int8 : {true, false}) {
        const auto decoded = RoundTrip(*(int8 ? BlockInt8(block) : BlockInt4(block)), x, runs);
        size_t at = 0;
        for (const int64_t run : runs) {
          for (int64_t begin = 0; begin < run; begin += block) {
            const size_t n = static_cast<size_t>(std::min(block, run - begin));
            ExpectWithinBound(std::span(x).subspan(at, n), std::span(decoded).subspan(at, n), int8);
            at += n;
          }
        }
      }
    }
  }
}

double Snr(const Codec& codec, std::string_view kind) {
  const std::vector<float> x = Sample(kind, 1 << 18);
  const auto decoded = RoundTrip(codec, x, std::array{int64_t{1} << 18});
  double signal = 0, noise = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    signal += std::pow(static_cast<double>(x[i]), 2);
    noise += std::pow(static_cast<double>(x[i]) - static_cast<double>(decoded[i]), 2);
  }
  return 10 * std::log10(signal / noise);
}

// Decibels: an independent emulation gave 20.4, 17.2, 15.9, 12.5, 5.0 for int4 (16 k elements) and
// 44 to 41 for int8; searching gave 20.8 and 16.3.
TEST(BlockError, SignalToNoise) {
  const auto searched = [](int64_t block) {
    return BlockInt4(block, "block", ScaleChoice::kSearched);
  };
  EXPECT_NEAR(Snr(*BlockInt4(64), "Gaussian"), 20.4, 0.2);
  EXPECT_NEAR(Snr(*BlockInt4(4096), "Gaussian"), 17.2, 0.2);
  EXPECT_NEAR(Snr(*BlockInt4(64), "Student-t(3)"), 15.9, 0.7);
  EXPECT_NEAR(Snr(*BlockInt4(256), "Student-t(3)"), 12.5, 1.0);
  EXPECT_NEAR(Snr(*searched(64), "Gaussian"), 20.8, 0.2);
  EXPECT_NEAR(Snr(*searched(64), "Student-t(3)"), 16.3, 0.7);
  EXPECT_NEAR(Snr(*BlockInt8(64), "Gaussian"), 44.0, 0.7);
  EXPECT_GT(Snr(*BlockInt8(4096), "Gaussian"), 40.5);
}

// Mean squared error relative to the elements', no more than an independent emulation of symmetric
// codes gave (int4 from -7 to 7 and int3 from -3 to 3, with factors of 0.95 and 0.8): codes down to
// -8 and -4 take the largest element, so steps are finer.
TEST(BlockError, ClippedAndRotated) {
  struct Case {
    const char* name;
    const char* kind;
    double most;
  };
  for (const Case& c : {Case{"int4/128/max0.95", "Gaussian", 0.0119},
                        {"int4/2048/max0.75", "Gaussian", 0.0133},
                        {"int3/128", "Gaussian", 0.047},
                        {"int3/2048/max0.65", "Gaussian", 0.05},
                        {"ternary/128", "Gaussian", 0.21},
                        {"ternary/2048/rms1.22", "Gaussian", 0.2},
                        {"int4/128", "Student-t(3)", 0.0505},
                        {"rot32+int4/128", "Student-t(3)", 0.0134},
                        {"rot128+int4/128", "Student-t(3)", 0.0121},
                        {"int3/128", "Student-t(3)", 0.142},
                        {"rot32+int3/128", "Student-t(3)", 0.048},
                        {"rot128+int3/128", "Student-t(3)", 0.042},
                        {"rot32+ternary/128/rms1.22", "Student-t(3)", 0.2},
                        {"int4/128", "spikes", 0.0751},
                        {"rot32+int4/128", "spikes", 0.0119},
                        {"rot128+int4/128", "spikes", 0.0082}}) {
    const double error = std::pow(10.0, Snr(*ByName(c.name, "codec"), c.kind) / -10);
    EXPECT_LE(error, c.most) << c.name << " " << c.kind;
    EXPECT_GE(error, 0.6 * c.most) << c.name << " " << c.kind;
  }
}

}  // namespace
}  // namespace thinwire::codec
