// Whisper's decoder: tokens of several sequences about one sound, at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/memory_plan.h"
#include "thinwire/base/thread_team.h"
#include "thinwire/infer/kv_cache.h"
#include "thinwire/speech/network.h"
#include "thinwire/speech/whisper_weights.h"

namespace thinwire::speech {

struct DecoderLimits {
  int64_t sequences = 1;  // that are in the cache at once
  int64_t running = 1;    // of them, those that get tokens: the others only share pages
};

using infer::Segment;

class Decoder {
 public:
  // Adds its memory to `plan`, so Take comes before any other call. `weights` and `team` must
  // outlive this, which must not move. Nothing below allocates.
  Decoder(const WhisperSpec& spec, const WhisperWeights& weights, ThreadTeam& team,
          const DecoderLimits& limits, MemoryPlan& plan);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  const WhisperSpec& spec() const { return spec_; }
  const DecoderLimits& limits() const { return limits_; }
  const ExecContext& context() const { return context_; }
  infer::KvCache& cache() { return cache_; }

  // What the tokens from now on are about: rows of the encoder. Empties no sequence.
  void Hear(std::span<const float> encoded);

  // Runs the segments' tokens, one segment after the other in `tokens`, each of another sequence;
  // together at most spec().text_positions, and no sequence becomes longer than that.
  void Forward(std::span<const int32_t> tokens, std::span<const Segment> segments);

  // Logits after `rows` (indices into the last Forward's tokens), at most limits().running or two:
  // [rows][vocabulary]. Valid until the next call; the caller may write to it.
  std::span<float> Logits(std::span<const int64_t> rows);
  // `logits` so many times over, where Logits would put them.
  std::span<float> Repeat(std::span<const float> logits, int64_t count);

 private:
  struct Piece {
    int64_t sequence;
    int64_t row;    // of the first token
    int64_t first;  // its position
    int64_t tokens;
  };

  void Begin(std::span<const int32_t> tokens, std::span<const Segment> segments);
  void SelfAttention(const AttentionWeights& weights, int64_t layer);
  void CrossAttention(const AttentionWeights& weights, int64_t layer);
  void FeedForward(const FeedForwardWeights& weights);

  const WhisperSpec spec_;
  const WhisperWeights& weights_;
  ThreadTeam& team_;
  const DecoderLimits limits_;
  const ExecContext context_;
  const kernels::HeadsShape heads_;
  infer::Projector projector_;
  SoundCache sound_;
  infer::KvCache cache_;

  int64_t rows_ = 0;  // tokens of the last pass
  std::vector<Piece> pieces_;
  std::span<float> sound_keys_, sound_values_;  // [audio positions][hidden], of one layer
  std::span<float> x_;                          // [rows][hidden], the residual stream
  std::span<float> normed_;                     // [rows][hidden]
  std::span<float> query_, key_, value_;        // [rows][hidden]
  std::span<float> inner_;                      // [rows][feed_forward]
  std::span<float> last_;                       // [outputs][hidden]
  std::span<float> logits_;                     // [outputs][vocabulary]
  std::span<float> scratch_;                    // [threads][scratch_floats_]
  int64_t scratch_floats_ = 0;
};

}  // namespace thinwire::speech
