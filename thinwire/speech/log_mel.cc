#include "thinwire/speech/log_mel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "thinwire/base/checked.h"
#include "thinwire/speech/spectrum.h"

namespace thinwire::speech {
namespace {

constexpr auto kBins = static_cast<size_t>(kSpectrumBins);
constexpr auto kSamples = static_cast<size_t>(kSpectrumSamples);
static_assert(kSamples == PowerSpectrum400::kSamples);
constexpr float kFloor = 1e-10f;
constexpr float kRange = 8;  // powers of ten that are kept below the largest
constexpr int64_t kFramesAtOnce = 64;

// Slaney's scale: linear to 1 kHz, 3 mels per 200 Hz; above, 27 mels per factor 6.4.
constexpr double kLinearHz = 200.0 / 3, kLogFrom = 1000;
double MelOf(double hertz) {
  if (hertz < kLogFrom) return hertz / kLinearHz;
  return kLogFrom / kLinearHz + 27 * std::log(hertz / kLogFrom) / std::log(6.4);
}
double HertzOf(double mel) {
  const double from = kLogFrom / kLinearHz;
  return mel < from ? mel * kLinearHz : kLogFrom * std::exp((mel - from) * std::log(6.4) / 27);
}

// A triangle without its zeros.
struct Triangle {
  size_t first = 0;
  std::vector<double> weights;
};

std::vector<Triangle> Triangles(int64_t mels) {
  const std::vector<double> full = MelTriangles(mels);
  std::vector<Triangle> triangles(static_cast<size_t>(mels));
  for (size_t m = 0; m < triangles.size(); ++m) {
    const auto row = std::span(full).subspan(m * kBins, kBins);
    size_t first = 0, end = kBins;
    while (first < end && row[first] == 0) ++first;
    while (end > first && row[end - 1] == 0) --end;
    triangles[m] = {.first = first,
                    .weights = {row.begin() + static_cast<ptrdiff_t>(first),
                                row.begin() + static_cast<ptrdiff_t>(end)}};
  }
  return triangles;
}

// Under the window; before the beginning mirrored, behind the end silence.
void Cut(std::span<const float> samples, int64_t frame, std::span<const double, kSamples> window,
         std::span<double, kSamples> out) {
  const auto count = static_cast<int64_t>(samples.size());
  const int64_t first = frame * kFrameSamples - kSpectrumSamples / 2;
  for (int64_t i = 0; i < kSpectrumSamples; ++i) {
    const int64_t at = std::abs(first + i);
    const auto k = static_cast<size_t>(i);
    out[k] = at < count ? window[k] * double{samples[static_cast<size_t>(at)]} : 0;
  }
}

}  // namespace

std::vector<double> MelTriangles(int64_t mels) {
  std::vector<double> weights(static_cast<size_t>(mels) * kBins);
  const double step = MelOf(double{kSampleRate} / 2) / static_cast<double>(mels + 1);
  for (int64_t m = 0; m < mels; ++m) {
    const auto at = static_cast<double>(m);
    const double low = HertzOf(at * step), peak = HertzOf((at + 1) * step),
                 high = HertzOf((at + 2) * step);
    for (size_t k = 0; k < kBins; ++k) {
      const double hertz = static_cast<double>(k) * double{kSampleRate} / double{kSpectrumSamples};
      const double height = std::min((hertz - low) / (peak - low), (high - hertz) / (high - peak));
      weights[static_cast<size_t>(m) * kBins + k] = std::max(0.0, height) * 2 / (high - low);
    }
  }
  return weights;
}

LogMel::LogMel(std::span<const float> samples, int64_t mels, ThreadTeam& team)
    : mels_(mels),
      frames_((static_cast<int64_t>(samples.size()) + kFrameSamples - 1) / kFrameSamples),
      log_(static_cast<size_t>(CheckedMul(frames_, mels, "spectra"))) {
  std::array<double, kSamples> window;
  for (size_t i = 0; i < kSamples; ++i) {
    window[i] = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) /
                                     double{kSpectrumSamples});
  }
  const std::vector<Triangle> triangles = Triangles(mels);
  const PowerSpectrum400 spectrum;
  const auto store = [&](int64_t frame, std::span<const double, kBins> power) {
    for (size_t m = 0; m < triangles.size(); ++m) {
      double sum = 0;
      for (size_t k = 0; k < triangles[m].weights.size(); ++k) {
        sum += triangles[m].weights[k] * power[triangles[m].first + k];
      }
      log_[static_cast<size_t>(frame) * triangles.size() + m] =
          std::log10(std::max(static_cast<float>(sum), kFloor));
    }
  };
  // Enough of them at once that their number stays within what the team counts to.
  const int64_t grain = std::max(kFramesAtOnce, frames_ / 4096 / 2 * 2);
  team.Run(frames_, grain, [&](int64_t begin, int64_t end, int) {
    std::array<double, kSamples> a, b;
    std::array<double, kBins> power_a, power_b;
    for (int64_t frame = begin; frame < end; frame += 2) {
      Cut(samples, frame, window, a);
      Cut(samples, frame + 1, window, b);
      spectrum.Run(a, b, power_a, power_b);
      store(frame, power_a);
      if (frame + 1 < end) store(frame + 1, power_b);
    }
  });
  if (!log_.empty()) largest_ = *std::max_element(log_.begin(), log_.end());
}

void LogMel::Window(int64_t first, int64_t count, float* out, int64_t stride) const {
  const float least = largest_ - kRange;
  for (int64_t f = 0; f < count; ++f) {
    const bool inside = first + f < frames_;
    for (int64_t m = 0; m < mels_; ++m) {
      const float x = inside ? log_[static_cast<size_t>((first + f) * mels_ + m)] : least;
      out[f * stride + m] = (std::max(x, least) + 4) / 4;
    }
  }
}

}  // namespace thinwire::speech
