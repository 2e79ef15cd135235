// What a decoder looks like, from a GGUF file's metadata: the families LLaMA (Mistral and SmolLM2
// among them), Qwen2, GPT-2 and OPT.
#pragma once

#include <cstdint>
#include <string>

#include "thinwire/io/gguf.h"
#include "thinwire/kernels/decoder_rows.h"

namespace thinwire::infer {

struct DecoderSpec {
  std::string architecture;  // as in the file: "llama", "qwen2", "gpt2", "opt"

  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t feed_forward = 0;
  int64_t vocabulary = 0;
  int64_t context = 0;  // positions that it was trained for

  enum class Norm : uint8_t { kRootMeanSquare, kLayer };
  Norm norm = Norm::kRootMeanSquare;
  float epsilon = 1e-5f;

  kernels::Activation activation = kernels::Activation::kSilu;
  bool gated = true;  // activation(gate x) * up x, else activation(up x)

  // Positions turn queries and keys, or are vectors added to the embedding.
  bool rotary = true;
  kernels::RotaryPairs pairs = kernels::RotaryPairs::kHalves;
  int64_t turned = 0;  // elements of a head that turn
  double rotary_base = 10000;
  double rotary_scale = 1;  // positions are divided by it

  int64_t window = 0;  // positions a token sees at most; 0: all

  int64_t query_columns() const { return heads * head_dim; }
  int64_t kv_columns() const { return kv_heads * head_dim; }
};

// Throws UsageError naming file and key: an architecture that is not read here, a value missing, of
// another type, out of range or against another.
DecoderSpec ReadDecoderSpec(const io::GgufFile& file);

}  // namespace thinwire::infer
