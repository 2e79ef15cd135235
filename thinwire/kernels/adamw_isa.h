// The loop of adamw.h; checks are the caller's.
#pragma once

#include <cstdint>

#include "thinwire/kernels/per_isa.h"

namespace thinwire::kernels {

// What AdamWStep comes down to for one element.
struct AdamWFactors {
  float grad_scale;
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float decay;       // lr * weight_decay
  float step_size;   // lr / bias1
  float root_bias2;  // sqrt(bias2)
  float eps;
};

// 1 - beta^step, computed in fp64 and rounded once.
float BiasCorrection(float beta, int64_t step);

// The arrays must not overlap.
THINWIRE_PER_ISA(void AdamW(const AdamWFactors& factors, const float* grad, float* master, float* m,
                            float* v, int64_t size);)

}  // namespace thinwire::kernels
