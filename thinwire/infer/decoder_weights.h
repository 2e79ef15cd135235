// The weights of a decoder, packed for this processor (blocks/packed.h) piece by piece, so that
// they are never in memory twice. What tensors there are, of which shapes and types, is in a GGUF
// file or in what would be the beginning of one; what they hold comes from it or from elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
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

// Hands out rows of a tensor, in its type, to threads of a team.
class TensorRows {
 public:
  virtual ~TensorRows() = default;
  // Valid until `thread` asks again.
  virtual std::span<const std::byte> Rows(int64_t begin, int64_t end, int thread) = 0;
  // These have been packed.
  virtual void Packed(std::span<const std::byte> rows) = 0;
};

class DecoderWeights {
 public:
  // Takes memory for all of them; they are zero until they are set. Throws UsageError naming file
  // and tensor: one that is missing, of another shape, or there but not part of such a model.
  DecoderWeights(const io::GgufFile& file, const DecoderSpec& spec);
  // The same, and sets them all to what the file has.
  DecoderWeights(const io::GgufFile& file, const DecoderSpec& spec, ThreadTeam& team);
  DecoderWeights(DecoderWeights&&) = default;

  // So many rows are asked for at once, at most.
  static int64_t RowsAtOnce(int64_t row_bytes);
  // Packs one of the file's tensors; no other memory is taken. Vectors are one row.
  void Set(std::string_view tensor, TensorRows& rows, ThreadTeam& team);

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
  class Layout;
  // Rows of a tensor that are a matrix of their own, or elements that are a vector.
  struct Part {
    int64_t first = 0;
    blocks::PackedMatrix matrix;
    std::span<float> vector;
  };

  PlannedMemory memory_;
  blocks::PackedMatrix embedding_, positions_;
  std::vector<LayerWeights> layers_;
  NormWeights output_norm_;
  Linear head_;
  std::span<const float> rotary_factors_;
  std::map<std::string, std::vector<Part>, std::less<>> parts_;  // of each tensor
};

}  // namespace thinwire::infer
