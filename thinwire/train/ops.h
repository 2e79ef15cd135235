// The operators of the native model that torch's CPU operators are slow at, as differentiable
// functions on tensors: row arithmetic by kernels/transformer_rows.h, products by torch. Tensors
// are fp32, bf16 or fp16 (computed in fp32), contiguous, on the CPU.
#pragma once

#include <ATen/core/Tensor.h>

namespace thinwire::train {

// x [..., columns], weight [columns].
at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, float eps);

// silu(gate) * up.
at::Tensor SwiGlu(const at::Tensor& gate, const at::Tensor& up);

// Cosines and sines of rotary embedding, fp32 [positions, head_dim / 2].
struct Rotary {
  Rotary(int64_t positions, int64_t head_dim, double theta);

  int64_t positions() const { return cosine.size(0); }

  at::Tensor cosine;
  at::Tensor sine;
};

struct AttentionShape {
  int64_t heads = 0;
  int64_t kv_heads = 0;
};

// Causal self-attention of q [batch, tokens, heads * dim], k and v [batch, tokens, kv_heads * dim],
// all before rotary embedding, from position 0. Keeps q, k and v for backward, not the scores.
at::Tensor CausalAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const Rotary& rotary, const AttentionShape& shape);

// Rotated keys and values of the tokens seen so far, [kv_heads, capacity, dim]; batch 1.
struct AttentionCache {
  at::Tensor k;
  at::Tensor v;
};

// The same for the tokens that follow the first `position` ones, which the cache holds; adds the
// new ones to it. Without gradients.
at::Tensor CachedAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const Rotary& rotary, const AttentionShape& shape, int64_t position,
                           AttentionCache& cache);

// The mean over rows of -log softmax(logits)[target], fp32 scalar. logits [rows, columns], targets
// int64 [rows]. The gradient replaces the logits in their own memory: the caller must not read
// them afterwards.
at::Tensor CrossEntropy(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace thinwire::train
