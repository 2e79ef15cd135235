// The weights of a decoder, out of a GGUF file and packed for this processor (blocks/packed.h)
// piece by piece, so that they are never in memory twice.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/memory_plan.h"
#include "thinwire/base/thread_team.h"
#include "thinwire/blocks/packed.h"
#include "thinwire/infer/decoder_spec.h"
#include "thinwire/infer/projector.h"
#include "thinwire/io/gguf.h"

namespace thinwire::infer {

struct LayerWeights {
  NormWeights attention_norm;
  Linear query, key, value, output;
  NormWeights feed_norm;
  Linear gate, up, down;
};

class DecoderWeights {
 public:
  // Reads and packs all of them with `team`. Throws UsageError naming file and tensor: one that is
  // missing, of another shape, or there but not part of such a model.
  DecoderWeights(const io::GgufFile& file, const DecoderSpec& spec, ThreadTeam& team);
  DecoderWeights(DecoderWeights&&) = default;

  const blocks::PackedMatrix& embedding() const { return embedding_; }
  // [context][hidden]; of no rows where positions are rotary.
  const blocks::PackedMatrix& positions() const { return positions_; }
  const std::vector<LayerWeights>& layers() const { return layers_; }
  const NormWeights& output_norm() const { return output_norm_; }
  // Logits; the embedding where the file has no matrix for it.
  const Linear& head() const { return head_; }
  // What the frequencies of rotary embedding are divided by; empty: by nothing.
  std::span<const float> rotary_factors() const { return rotary_factors_; }

  int64_t bytes() const { return static_cast<int64_t>(memory_.bytes().size()); }

 private:
  class Loader;

  PlannedMemory memory_;
  blocks::PackedMatrix embedding_, positions_;
  std::vector<LayerWeights> layers_;
  NormWeights output_norm_;
  Linear head_;
  std::span<const float> rotary_factors_;
};

}  // namespace thinwire::infer
