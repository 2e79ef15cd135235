#include "thinwire/speech/speech_gate.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace thinwire::speech {
namespace {

constexpr int64_t kBands = 8;
constexpr int64_t kSmoothed = 2;  // frames to each side
constexpr int64_t kApart = 5;     // frames to each side
constexpr float kSilence = 1e-6f;
constexpr float kChange = 0.9f;  // powers of ten

using Bands = std::array<float, kBands>;

}  // namespace

SpeechGate::SpeechGate(const LogMel& log_mel) {
  const int64_t frames = log_mel.frames(), mels = log_mel.mels();
  std::vector<Bands> power(static_cast<size_t>(frames)), level(power.size());
  for (int64_t f = 0; f < frames; ++f) {
    const std::span<const float> raw = log_mel.Raw(f);
    for (int64_t m = 0; m < mels; ++m) {
      power[static_cast<size_t>(f)][static_cast<size_t>(m * kBands / mels)] +=
          std::pow(10.0f, raw[static_cast<size_t>(m)]);
    }
  }
  for (int64_t f = 0; f < frames; ++f) {
    const int64_t begin = std::max<int64_t>(0, f - kSmoothed);
    const int64_t end = std::min(frames, f + kSmoothed + 1);
    for (size_t band = 0; band < kBands; ++band) {
      float sum = 0;
      for (int64_t k = begin; k < end; ++k) sum += power[static_cast<size_t>(k)][band];
      level[static_cast<size_t>(f)][band] =
          std::log10(sum / static_cast<float>(end - begin) + kSilence);
    }
  }
  sums_.assign(static_cast<size_t>(frames) + 1, 0);
  for (int64_t f = 0; f < frames; ++f) {
    const Bands& before = level[static_cast<size_t>(std::max<int64_t>(0, f - kApart))];
    const Bands& after = level[static_cast<size_t>(std::min(frames - 1, f + kApart))];
    bool changes = false;
    for (size_t band = 0; band < kBands; ++band) {
      changes = changes || std::abs(after[band] - before[band]) > kChange;
    }
    sums_[static_cast<size_t>(f) + 1] = sums_[static_cast<size_t>(f)] + (changes ? 1 : 0);
  }
}

int64_t SpeechGate::Changes(int64_t first, int64_t count) const {
  const auto frames = static_cast<int64_t>(sums_.size()) - 1;
  const int64_t begin = std::clamp<int64_t>(first, 0, frames);
  const int64_t end = std::clamp<int64_t>(first + count, begin, frames);
  return sums_[static_cast<size_t>(end)] - sums_[static_cast<size_t>(begin)];
}

}  // namespace thinwire::speech
