// AdamW (Loshchilov & Hutter 2019, decoupled weight decay) on flat spans.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/context.h"

namespace thinwire::kernels {

struct AdamWStep {
  float lr = 0;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float eps = 1e-8f;
  float weight_decay = 0;
  float grad_scale = 1;  // the clipping coefficient; 1 leaves the bits of the gradient alone
  int64_t step = 1;      // 1 for the first, for bias correction
};

// For each element, all in fp32 and in this order of operations, without contraction:
//   g  = grad * grad_scale
//   m  = beta1 * m + (1 - beta1) * g
//   v  = beta2 * v + (1 - beta2) * (g * g)
//   p  = p - lr * weight_decay * p                       (lr * weight_decay computed once)
//   p  = p - (lr / bias1) * m / (sqrt(v) / sqrt(bias2) + eps)
// with bias_k = 1 - beta_k^step computed in fp64 and rounded once. All spans have one size and do
// not overlap. The same bits on every instruction set; a NaN result is the positive quiet one
// without payload.
void AdamW(const ExecContext& context, const AdamWStep& step, std::span<const float> grad,
           std::span<float> master, std::span<float> m, std::span<float> v);

}  // namespace thinwire::kernels
