// The weights of a Whisper model, packed for this processor piece by piece, so that they are never
// in memory twice.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/base/memory_plan.h"
#include "thinwire/base/thread_team.h"
#include "thinwire/blocks/packed.h"
#include "thinwire/infer/projector.h"
#include "thinwire/speech/whisper_model.h"

namespace thinwire::speech {

using infer::Linear;
using infer::NormWeights;

struct AttentionWeights {
  NormWeights norm;
  Linear query, key, value, output;
};

struct FeedForwardWeights {
  NormWeights norm;
  Linear up, down;
};

struct EncoderLayer {
  AttentionWeights self;
  FeedForwardWeights feed;
};

struct DecoderLayer {
  AttentionWeights self, cross;
  FeedForwardWeights feed;
};

class WhisperWeights {
 public:
  // Matrices of products become `wanted`, where that is given; a type whose blocks do not fit
  // the model's widths is a UsageError.
  WhisperWeights(const WhisperModel& model, std::optional<WeightType> wanted, ThreadTeam& team);
  WhisperWeights(const WhisperWeights&) = delete;
  WhisperWeights& operator=(const WhisperWeights&) = delete;

  // Over [3 steps][in], their columns filled up with zeros to a multiple of 32.
  const Linear& first_convolution() const { return conv1_; }
  const Linear& second_convolution() const { return conv2_; }
  const blocks::PackedMatrix& audio_positions() const { return audio_positions_; }
  const std::vector<EncoderLayer>& encoder() const { return encoder_; }
  const NormWeights& encoder_norm() const { return encoder_norm_; }
  // Of tokens; its product with the decoder's last rows are the logits.
  const Linear& embedding() const { return embedding_; }
  const blocks::PackedMatrix& text_positions() const { return text_positions_; }
  const std::vector<DecoderLayer>& decoder() const { return decoder_; }
  const NormWeights& decoder_norm() const { return decoder_norm_; }

  int64_t bytes() const { return static_cast<int64_t>(memory_.bytes().size()); }

 private:
  class Loader;

  PlannedMemory memory_;
  Linear conv1_, conv2_, embedding_;
  blocks::PackedMatrix audio_positions_, text_positions_;
  std::vector<EncoderLayer> encoder_;
  std::vector<DecoderLayer> decoder_;
  NormWeights encoder_norm_, decoder_norm_;
};

}  // namespace thinwire::speech
