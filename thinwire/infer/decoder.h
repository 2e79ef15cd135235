// The forward pass of a decoder: tokens of several sequences at once, through all layers, into the
// cache of keys and values; then logits for those rows that are asked for.
//
// All memory is planned beforehand: Forward and Logits allocate nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/context.h"
#include "thinwire/base/memory_plan.h"
#include "thinwire/base/thread_team.h"
#include "thinwire/infer/decoder_spec.h"
#include "thinwire/infer/decoder_weights.h"
#include "thinwire/infer/kv_cache.h"
#include "thinwire/infer/projector.h"

namespace thinwire::infer {

struct DecoderLimits {
  int64_t batch = 256;  // tokens of one pass
  int64_t outputs = 1;  // rows of logits at once
  KvCapacity cache;
};

class Decoder {
 public:
  // Adds its memory to `plan`, so Take comes before any other call. `weights` and `team` must
  // outlive this, which must not move.
  Decoder(const DecoderSpec& spec, const DecoderWeights& weights, ThreadTeam& team,
          const DecoderLimits& limits, MemoryPlan& plan);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  const DecoderSpec& spec() const { return spec_; }
  const DecoderLimits& limits() const { return limits_; }
  const ExecContext& context() const { return context_; }
  KvCache& cache() { return cache_; }

  // Runs the segments' tokens, one segment after the other in `tokens`, each of another sequence,
  // together at most limits().batch. Throws UsageError, and changes nothing, on a token that is not
  // in the vocabulary, a position beyond a model's learned ones, or too little room in the cache.
  void Forward(std::span<const int32_t> tokens, std::span<const Segment> segments);

  // Logits after rows (indices into the last Forward's tokens), at most limits().outputs of them:
  // [rows][vocabulary]. Valid until the next call; the caller may write to it.
  std::span<float> Logits(std::span<const int64_t> rows);

  // What the output head sees of a row (as above): [hidden]. Valid until the next call.
  std::span<const float> Hidden(int64_t row);

 private:
  // Tokens of one sequence that are stored and attended to as one piece of work.
  struct Piece {
    int64_t sequence;
    int64_t row;    // of the first token
    int64_t first;  // its position
    int64_t tokens;
  };

  void Plan(MemoryPlan& plan);
  void CheckPass(std::span<const int32_t> tokens, std::span<const Segment> segments) const;
  void BeginPass(std::span<const Segment> segments);
  void Embed(std::span<const int32_t> tokens);
  void Angles();
  void Attention(const LayerWeights& layer, int64_t index);
  void FeedForward(const LayerWeights& layer);
  // Of rows [begin, end).
  void Normalize(const NormWeights& norm, const float* x, int64_t begin, int64_t end,
                 float* y) const;

  const DecoderSpec spec_;
  const DecoderWeights& weights_;
  ThreadTeam& team_;
  const DecoderLimits limits_;
  const ExecContext context_;
  Projector projector_;
  KvCache cache_;

  int64_t rows_ = 0;  // tokens of the last pass
  std::vector<Piece> pieces_;
  std::span<float> x_;                    // [batch][hidden], the residual stream
  std::span<float> normed_;               // [batch][hidden]
  std::span<float> query_, key_, value_;  // [batch][columns]
  std::span<float> gate_, up_;            // [batch][feed_forward]
  std::span<float> frequencies_;          // [turned / 2]
  std::span<float> cosines_, sines_;      // [batch][turned / 2]
  std::span<float> attention_scratch_;    // [threads][attention_scratch_floats_]
  std::span<float> last_;                 // [outputs][hidden]
  std::span<float> logits_;               // [outputs][vocabulary]
  int64_t attention_scratch_floats_ = 0;
};

}  // namespace thinwire::infer
