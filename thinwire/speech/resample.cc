#include "thinwire/speech/resample.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "thinwire/base/checked.h"

namespace thinwire::speech {
namespace {

constexpr double kBeta = 9;
constexpr double kCrossings = 48;
// Where the amplitude is halved, in cycles per sample of the lower rate. The slope is as wide as
// 90 dB - 8 dB over 2.285 * 2 pi * the width of the window (Kaiser): 0.056.
constexpr double kCutoff = 0.472;

double Kaiser(double x) {  // |x| <= 1
  return std::cyl_bessel_i(0, kBeta * std::sqrt(std::max(0.0, 1 - x * x))) /
         std::cyl_bessel_i(0, kBeta);
}

// Weights of the samples around a point `fraction` of a sample behind one of them.
void MakeWeights(double fraction, double cutoff, std::span<float> weights) {
  const auto half = static_cast<double>(weights.size() / 2);
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double x = static_cast<double>(i) - half + 1 - fraction;
    const double angle = 2 * std::numbers::pi * cutoff * x;
    const double sinc = angle == 0 ? 1 : std::sin(angle) / angle;
    const double weight = std::abs(x) < half ? sinc * Kaiser(x / half) : 0;
    weights[i] = static_cast<float>(weight);
    sum += weight;
  }
  for (float& weight : weights) weight = static_cast<float>(weight / sum);
}

}  // namespace

std::vector<float> Resample(std::span<const float> samples, int64_t from, int64_t to) {
  THINWIRE_CHECK(from > 0 && to > 0, from, " ", to);
  if (from == to) return {samples.begin(), samples.end()};
  const int64_t common = std::gcd(from, to), up = to / common, down = from / common;
  const auto count = static_cast<int64_t>(samples.size());
  const int64_t wanted = (CheckedMul(count, up, "samples") + down - 1) / down;
  const double cutoff =
      kCutoff * std::min(1.0, static_cast<double>(to) / static_cast<double>(from));
  const auto half = static_cast<int64_t>(std::ceil(kCrossings / (2 * cutoff)));
  const auto width = static_cast<size_t>(2 * half);
  std::vector<float> weights(width * static_cast<size_t>(up));
  for (int64_t phase = 0; phase < up; ++phase) {
    MakeWeights(static_cast<double>(phase) / static_cast<double>(up), cutoff,
                std::span(weights).subspan(static_cast<size_t>(phase) * width, width));
  }
  std::vector<float> out(static_cast<size_t>(wanted));
  for (int64_t n = 0; n < wanted; ++n) {
    const int64_t at = n * down / up, phase = n * down % up;
    const auto own = std::span(weights).subspan(static_cast<size_t>(phase) * width, width);
    const int64_t first = at - half + 1;
    const int64_t begin = std::max<int64_t>(0, -first), end = std::min(2 * half, count - first);
    float sum = 0;
    for (int64_t i = begin; i < end; ++i) {
      sum += own[static_cast<size_t>(i)] * samples[static_cast<size_t>(first + i)];
    }
    out[static_cast<size_t>(n)] = sum;
  }
  return out;
}

}  // namespace thinwire::speech
