// The loops of updates.h; checks are the caller's.
#pragma once

#include <cstdint>

#include "thinwire/kernels/adamw_isa.h"
#include "thinwire/kernels/per_isa.h"

namespace thinwire::kernels {

// What SgdStep comes down to for one element.
struct SgdFactors {
  float grad_scale;
  float weight_decay;
  float lr;
  float momentum;  // of nesterov's look ahead
  float keep;      // of the buffer: momentum, 0 in step 1
  float add;       // of the gradient: 1 - dampening, 1 in step 1
};

struct LionFactors {
  float grad_scale;
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float decay;  // lr * weight_decay
  float lr;
};

// The arrays must not overlap. AdamWFactors::decay is the weight decay itself in Adam and LAMB, and
// step_size is bias1 in LAMB. A null `buffer` is plain descent.
THINWIRE_PER_ISA(void Adam(const AdamWFactors& factors, const float* grad, float* master, float* m,
                           float* v, int64_t size);
                 void Sgd(const SgdFactors& factors, bool nesterov, const float* grad,
                          float* master, float* buffer, int64_t size);
                 void Lion(const LionFactors& factors, const float* grad, float* master, float* m,
                           int64_t size);
                 void LambDirection(const AdamWFactors& factors, float* grad, const float* master,
                                    float* m, float* v, int64_t size);
                 void SubtractScaled(float factor, const float* x, float* y, int64_t size);)

}  // namespace thinwire::kernels
