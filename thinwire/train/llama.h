// A LLaMA-type model as pure functions of parameters and activations: RMSNorm, rotary embedding,
// grouped-query attention, SwiGLU. Not where parameters come from: sharded_llama.h runs these
// functions unit by unit over the ZeRO engine, generate.h over full weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "thinwire/train/llama_config.h"
#include "thinwire/train/ops.h"

namespace thinwire::train {

struct BlockParameters {
  at::Tensor input_norm;
  at::Tensor q, k, v, o;
  at::Tensor post_norm;
  at::Tensor gate, up, down;
};

struct HeadParameters {
  at::Tensor norm;
  at::Tensor projection;  // the embedding when tied
};

// The parameters of one unit by their index in LlamaUnits().
using ParameterOf = std::function<at::Tensor(int unit, int index)>;

at::Tensor EmbeddingParameter(const LlamaConfig& config, const ParameterOf& parameter);
BlockParameters BlockOf(const LlamaConfig& config, const ParameterOf& parameter, int64_t layer);
HeadParameters HeadOf(const LlamaConfig& config, const ParameterOf& parameter);

// tokens int64 [batch, sequence] -> [batch, sequence, hidden].
at::Tensor Embed(const at::Tensor& weight, const at::Tensor& tokens);
// x [batch, sequence, hidden] -> the same shape, positions from 0.
at::Tensor Block(const LlamaConfig& config, const Rotary& rotary, const BlockParameters& parameters,
                 const at::Tensor& x);
// The same for tokens that follow `position` earlier ones; batch 1, no gradients.
at::Tensor CachedBlock(const LlamaConfig& config, const Rotary& rotary,
                       const BlockParameters& parameters, const at::Tensor& x, int64_t position,
                       AttentionCache& cache);
// [..., hidden] -> [rows, vocab_size].
at::Tensor Logits(const LlamaConfig& config, const HeadParameters& parameters, const at::Tensor& x);
// Mean cross entropy of the next tokens; targets int64 [batch, sequence].
at::Tensor Loss(const LlamaConfig& config, const HeadParameters& parameters, const at::Tensor& x,
                const at::Tensor& targets);

}  // namespace thinwire::train
