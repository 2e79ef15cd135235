// The update rules of the optimizers besides AdamW (kernels/adamw.h), on flat spans. In all of them
// the gradient g is grad * grad_scale, and everything is fp32, in the order of operations given,
// without contraction. All spans have one size and do not overlap. The same bits on every
// instruction set; a NaN result is the positive quiet one without payload.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/context.h"
#include "thinwire/kernels/adamw.h"

namespace thinwire::kernels {

// Adam (Kingma & Ba 2015), weight decay as an L2 term of the loss:
//   g  = g + weight_decay * p
//   m, v as in AdamW
//   p  = p - (lr / bias1) * m / (sqrt(v) / sqrt(bias2) + eps)
void Adam(const ExecContext& context, const AdamWStep& step, std::span<const float> grad,
          std::span<float> master, std::span<float> m, std::span<float> v);

struct SgdStep {
  float lr = 0;
  float momentum = 0;
  float dampening = 0;
  float weight_decay = 0;
  bool nesterov = false;
  float grad_scale = 1;
  int64_t step = 1;
};

// As torch.optim.SGD:
//   g = g + weight_decay * p
//   b = momentum * b + (1 - dampening) * g     (in step 1: g)
//   p = p - lr * (nesterov ? g + momentum * b : b)
// With a momentum of 0 the last line takes g, and `buffer` is left alone and may be empty.
void Sgd(const ExecContext& context, const SgdStep& step, std::span<const float> grad,
         std::span<float> master, std::span<float> buffer);

struct LionStep {
  float lr = 0;
  float beta1 = 0.9f;
  float beta2 = 0.99f;
  float weight_decay = 0;
  float grad_scale = 1;
};

// Lion (Chen et al. 2023):
//   c = beta1 * m + (1 - beta1) * g
//   p = p - lr * weight_decay * p              (lr * weight_decay computed once)
//   p = p - lr * sign(c)                       (sign(0) = 0)
//   m = beta2 * m + (1 - beta2) * g
void Lion(const ExecContext& context, const LionStep& step, std::span<const float> grad,
          std::span<float> master, std::span<float> m);

// The direction of LAMB (You et al. 2020), in place of the gradient:
//   m, v as in AdamW
//   grad = (m / bias1) / (sqrt(v) / sqrt(bias2) + eps) + weight_decay * p
// step.lr is not looked at: the length of the step depends on norms of whole parameters.
void LambDirection(const ExecContext& context, const AdamWStep& step, std::span<float> grad,
                   std::span<const float> master, std::span<float> m, std::span<float> v);

// y = y - factor * x.
void SubtractScaled(const ExecContext& context, float factor, std::span<const float> x,
                    std::span<float> y);

}  // namespace thinwire::kernels
