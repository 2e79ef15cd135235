// What Whisper hears: the logarithm of a mel spectrum, 100 times a second.
//
// As openai/whisper's log_mel_spectrogram: samples at 16 kHz, a periodic Hann window of 400 around
// every 160th sample, the beginning mirrored, squared magnitudes through triangles of equal area on
// Slaney's mel scale (librosa's default, 0 to 8 kHz), log10 of at least 1e-10. Once all of the
// audio is known: values more than 8 below the largest are raised to there, then (x + 4) / 4.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/thread_team.h"

namespace thinwire::speech {

constexpr int64_t kSampleRate = 16000;
constexpr int64_t kFrameSamples = 160;  // from frame to frame
constexpr int64_t kFramesPerSecond = kSampleRate / kFrameSamples;
constexpr int64_t kSpectrumSamples = 400;
constexpr int64_t kSpectrumBins = kSpectrumSamples / 2 + 1;

// The whole of an audio file, followed by as much silence as is asked for.
class LogMel {
 public:
  // `mels` triangles; 80 or 128 in Whisper's models.
  LogMel(std::span<const float> samples, int64_t mels, ThreadTeam& team);

  int64_t mels() const { return mels_; }
  // Of the audio: a whole one for the last samples.
  int64_t frames() const { return frames_; }
  // Frames [first, first + count), first >= 0, into out[frame * stride + mel], silence after the
  // end.
  void Window(int64_t first, int64_t count, float* out, int64_t stride) const;
  // log10 of the power of each mel in a frame, as it is.
  std::span<const float> Raw(int64_t frame) const {
    return std::span(log_).subspan(static_cast<size_t>(frame * mels_), static_cast<size_t>(mels_));
  }

 private:
  int64_t mels_;
  int64_t frames_;
  float largest_ = -10;
  std::vector<float> log_;  // [frame][mel]
};

// Weights [mels][kSpectrumBins] of the triangles.
std::vector<double> MelTriangles(int64_t mels);

}  // namespace thinwire::speech
