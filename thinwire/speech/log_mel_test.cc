#include "thinwire/speech/log_mel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "thinwire/base/random.h"

namespace thinwire::speech {
namespace {

// The formula of openai/whisper's audio.py, sum by sum.
std::vector<double> Reference(std::span<const float> samples, int64_t mels, int64_t frames) {
  const std::vector<double> triangles = MelTriangles(mels);
  std::vector<double> all, cosines, sines;
  for (int64_t k = 0; k < 400; ++k) {
    cosines.push_back(std::cos(2 * std::numbers::pi * double(k) / 400));
    sines.push_back(std::sin(2 * std::numbers::pi * double(k) / 400));
  }
  for (int64_t frame = 0; frame < frames; ++frame) {
    std::vector<double> power;
    for (int64_t k = 0; k <= 200; ++k) {
      double re = 0, im = 0;
      for (int64_t i = 0; i < 400; ++i) {
        const int64_t at = std::abs(frame * 160 - 200 + i);
        if (at >= static_cast<int64_t>(samples.size())) continue;
        const double x = 0.5 * (1 - cosines[size_t(i)]) * samples[size_t(at)];
        re += x * cosines[size_t(k * i % 400)];
        im += x * sines[size_t(k * i % 400)];
      }
      power.push_back(re * re + im * im);
    }
    for (int64_t m = 0; m < mels; ++m) {
      const double sum = std::inner_product(power.begin(), power.end(),
                                            triangles.begin() + m * kSpectrumBins, 0.0);
      all.push_back(std::log10(std::max(sum, 1e-10)));
    }
  }
  const double largest = *std::max_element(all.begin(), all.end());
  for (double& x : all) x = (std::max(x, largest - 8) + 4) / 4;
  return all;
}

TEST(LogMelTest, IsTheReferenceFormula) {
  // A loud tone over faint noise, so that quiet bins stand next to loud ones; odd numbers of frames
  // and of samples.
  std::vector<float> samples(160 * 70 + 37);
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto noise = CounterRandom(1).Uniform(i) - 0.5;
    samples[i] = static_cast<float>(0.7 * std::sin(double(i) * 0.3) + 1e-3 * noise);
  }
  for (const int64_t mels : {80, 128}) {
    for (const int threads : {1, 3}) {
      ThreadTeam team(threads);
      const LogMel log_mel(samples, mels, team);
      ASSERT_EQ(log_mel.frames(), 71);
      const std::vector<double> expected = Reference(samples, mels, 71);
      const int64_t stride = mels + 3;
      std::vector<float> found(static_cast<size_t>(100 * stride));
      log_mel.Window(0, 100, found.data(), stride);
      double largest = 0;
      for (int64_t f = 0; f < 71; ++f) {
        for (int64_t m = 0; m < mels; ++m) {
          largest = std::max(
              largest, std::abs(found[size_t(f * stride + m)] - expected[size_t(f * mels + m)]));
        }
      }
      EXPECT_LT(largest, 1e-5);
      // Silence follows: as low as anything can be.
      EXPECT_NEAR(found[size_t(80 * stride)], *std::min_element(expected.begin(), expected.end()),
                  1e-6);
      std::vector<float> later(static_cast<size_t>(mels));
      log_mel.Window(33, 1, later.data(), mels);
      EXPECT_EQ(later[5], found[size_t(33 * stride + 5)]);
    }
  }
}

TEST(LogMelTest, TrianglesAreLibrosas) {
  const std::vector<double> weights = MelTriangles(80);
  // librosa.filters.mel(sr=16000, n_fft=400, n_mels=80)
  EXPECT_NEAR(weights[1], 0.02486259, 1e-7);
  EXPECT_NEAR(weights[size_t(79 * kSpectrumBins + 195)], 0.0021871, 2e-3);
  for (int64_t m = 0; m < 80; ++m) {
    const auto row = std::span(weights).subspan(size_t(m * kSpectrumBins), size_t(kSpectrumBins));
    EXPECT_GT(std::accumulate(row.begin(), row.end(), 0.0), 0);
  }
}

TEST(LogMelTest, NoSamples) {
  ThreadTeam team(1);
  const LogMel log_mel({}, 80, team);
  EXPECT_EQ(log_mel.frames(), 0);
  std::vector<float> out(80);
  log_mel.Window(0, 1, out.data(), 80);
  EXPECT_EQ(out[0], -3.5f);  // log10 of the floor, -10, less 8, plus 4, by 4
}

}  // namespace
}  // namespace thinwire::speech
