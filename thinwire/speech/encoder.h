// Whisper's encoder: spectra of a window of sound to what the decoder attends to.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/memory_plan.h"
#include "thinwire/base/thread_team.h"
#include "thinwire/speech/network.h"
#include "thinwire/speech/whisper_weights.h"

namespace thinwire::speech {

class Encoder {
 public:
  // Adds its memory to `plan`, so Take comes before any other call. `weights` and `team` must
  // outlive this, which must not move.
  Encoder(const WhisperSpec& spec, const WhisperWeights& weights, ThreadTeam& team,
          MemoryPlan& plan);
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  // Where the spectra go: [frames][mels].
  float* input() { return input_.data() + spec_.mels; }
  // Rows of spec.hidden for each of the positions, after the last norm. Valid until the next call.
  // Allocates nothing.
  std::span<const float> Run();

 private:
  void Convolve();
  void Attention(const AttentionWeights& weights);
  void FeedForward(const FeedForwardWeights& weights);

  const WhisperSpec spec_;
  const WhisperWeights& weights_;
  ThreadTeam& team_;
  const ExecContext context_;
  infer::Projector projector_;
  SoundCache cache_;
  std::span<float> input_;                // a row of zeros, frames, a row of zeros, slack: [mels]
  std::span<float> inner_;                // after conv1 likewise; later the feed-forward layer's
  std::span<float> x_;                    // [positions][hidden], the residual stream
  std::span<float> normed_;               // [positions][hidden]
  std::span<float> query_, key_, value_;  // [positions][hidden]
};

}  // namespace thinwire::speech
