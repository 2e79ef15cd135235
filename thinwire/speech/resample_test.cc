#include "thinwire/speech/resample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace thinwire::speech {
namespace {

std::vector<float> Tone(double hertz, int64_t rate, int64_t samples) {
  std::vector<float> tone(static_cast<size_t>(samples));
  for (size_t i = 0; i < tone.size(); ++i) {
    tone[i] = static_cast<float>(std::sin(2 * std::numbers::pi * hertz * static_cast<double>(i) /
                                          static_cast<double>(rate)));
  }
  return tone;
}

// Away from the ends, where the filter sees silence.
double LargestDifference(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  for (size_t i = 400; i + 400 < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::abs(double{a[i]} - b[i]));
  }
  return largest;
}

TEST(ResampleTest, TonesBelowTheLowerRateStay) {
  for (const int64_t rate : {8000, 11025, 22050, 32000, 44100, 48000, 96000, 22051}) {
    const std::vector<float> out = Resample(Tone(1234, rate, rate), rate, 16000);
    EXPECT_EQ(out.size(), 16000u) << rate;
    EXPECT_LT(LargestDifference(out, Tone(1234, 16000, 16000)), 1e-4) << rate;
  }
}

TEST(ResampleTest, TonesAboveVanish) {
  for (const double hertz : {8200.0, 10000.0, 15000.0, 21000.0}) {
    const std::vector<float> out = Resample(Tone(hertz, 44100, 44100), 44100, 16000);
    EXPECT_LT(LargestDifference(out, std::vector<float>(16000)), 1e-4) << hertz;
  }
}

TEST(ResampleTest, ShortOnes) {
  EXPECT_TRUE(Resample({}, 44100, 16000).empty());
  EXPECT_EQ(Resample(std::vector<float>(1), 44100, 16000).size(), 1u);
  EXPECT_EQ(Resample(std::vector<float>{1, 2}, 16000, 16000), (std::vector<float>{1, 2}));
  // A constant far from the ends stays what it is.
  EXPECT_NEAR(Resample(std::vector<float>(4000, 0.5f), 8000, 16000)[4000], 0.5f, 1e-6f);
}

}  // namespace
}  // namespace thinwire::speech
