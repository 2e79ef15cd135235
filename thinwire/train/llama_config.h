// The shape of a LLaMA-type model: its units and parameters under the names that Hugging Face gives
// them, and their initial values. Torch-free.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/zero/unit.h"

namespace thinwire::train {

struct LlamaConfig {
  int64_t vocab_size = 257;
  int64_t hidden = 128;
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t kv_heads = 4;
  int64_t intermediate = 352;
  double rope_theta = 10000;
  double norm_eps = 1e-5;
  bool tie_head = false;

  int64_t head_dim() const { return hidden / heads; }
};

// Where each part of the model lies among the units. The last norm goes with the head, which is
// used right after it: a unit of its own would cost messages for `hidden` elements.
//   untied  embedding | block 0 | ... | norm, head
//   tied    norm, embedding (first and last in a pass) | block 0 | ...
struct LlamaUnitIndex {
  int embedding = 0;
  int first_block = 1;
  int head = 0;  // the embedding's when tied
};

LlamaUnitIndex UnitIndex(const LlamaConfig& config);
std::vector<zero::UnitSpec> LlamaUnits(const LlamaConfig& config);

// The initial values of the elements from `offset` of a parameter, a function of (seed, name,
// index) alone, so that any owner can fill its stretch: norms 1, matrices normal(0, 0.02), those
// that write to the residual stream (o_proj, down_proj) scaled by 1 / sqrt(2 layers) as in GPT-2.
void FillInitial(const LlamaConfig& config, uint64_t seed, const zero::ParameterSpec& parameter,
                 int64_t offset, std::span<float> out);

}  // namespace thinwire::train
