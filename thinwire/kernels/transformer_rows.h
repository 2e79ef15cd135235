// What a transformer computes besides matrix products, row by row, forward and backward: RMSNorm,
// SwiGLU, causal softmax, cross entropy, and the change between token-major and head-major layout
// with rotary embedding. Not the matrix products themselves.
//
// Arrays are fp32 or bf16 (one dtype per call), arithmetic is fp32, sums run in 16 lanes by column
// mod 16 and then over the lanes in order, so every instruction set gives the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/context.h"
#include "thinwire/base/dtype.h"

namespace thinwire::kernels {

struct RowShape {
  int64_t rows = 0;
  int64_t columns = 0;
};

// y = x / sqrt(mean(x^2) + eps) * weight; keeps 1 / sqrt(...) of each row for backward.
void RmsNorm(const ExecContext& context, RowShape shape, ConstArray x, ConstArray weight, float eps,
             Array y, std::span<float> inverse_rms);
// dx from dy.
void RmsNormGrad(const ExecContext& context, RowShape shape, ConstArray x, ConstArray weight,
                 std::span<const float> inverse_rms, ConstArray dy, Array dx);
// dweight, summed over rows in their order. dweight has `columns` elements.
void RmsNormWeightGrad(const ExecContext& context, RowShape shape, ConstArray x,
                       std::span<const float> inverse_rms, ConstArray dy, Array dweight);

// out = silu(gate) * up, and its gradients.
void SwiGlu(const ExecContext& context, ConstArray gate, ConstArray up, Array out);
void SwiGluGrad(const ExecContext& context, ConstArray gate, ConstArray up, ConstArray dout,
                Array dgate, Array dup);

// Rows of attention scores: row r belongs to the query at position first + r / group and sees the
// keys 0 .. position.
struct CausalShape {
  int64_t rows = 0;
  int64_t keys = 0;
  int64_t first = 0;
  int64_t group = 1;
  float scale = 1;
};

// In place: softmax(scale * scores) over the visible keys, zero on the others.
void CausalSoftmax(const ExecContext& context, const CausalShape& shape, Array scores);
// In place: d_probabilities becomes the gradient of the unscaled scores.
void CausalSoftmaxGrad(const ExecContext& context, const CausalShape& shape,
                       ConstArray probabilities, Array d_probabilities);

// losses[r] = -log softmax(logits[r])[targets[r]]. With grad_scale != 0 the logits are overwritten
// by their gradient times grad_scale. Targets must lie in [0, columns).
void CrossEntropy(const ExecContext& context, RowShape shape, Array logits,
                  std::span<const int64_t> targets, float grad_scale, std::span<float> losses);

// Token-major [batch, tokens, kv_heads * group * dim] against head-major
// [batch * kv_heads, tokens * group, dim], dim even. Rotary embedding in the rotate-half convention
// of Hugging Face's LLaMA: element i of the first half turns with element i of the second by the
// angle whose cosine and sine stand at [token * dim / 2 + i]. Null tables: a copy.
struct HeadShape {
  int64_t batch = 1;
  int64_t tokens = 0;
  int64_t kv_heads = 1;
  int64_t group = 1;
  int64_t dim = 0;

  int64_t numel() const { return batch * tokens * kv_heads * group * dim; }
};

void ToHeads(const ExecContext& context, const HeadShape& shape, ConstArray in, const float* cosine,
             const float* sine, Array out);
// The inverse, which is also the gradient: turns back by the same angles.
void FromHeads(const ExecContext& context, const HeadShape& shape, ConstArray in,
               const float* cosine, const float* sine, Array out);

}  // namespace thinwire::kernels
