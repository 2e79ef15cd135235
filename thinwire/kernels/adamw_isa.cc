#include "thinwire/kernels/adamw_isa.h"

#include "thinwire/kernels/elements-inl.h"

namespace thinwire::kernels::THINWIRE_ISA {

void AdamW(const AdamWFactors& factors, const float* grad, float* master, float* m, float* v,
           int64_t size) {
  const AdamWFactors f = factors;  // a copy that no store below can be taken to change
#pragma GCC ivdep
  for (int64_t i = 0; i < size; ++i) {
    const float g = grad[i] * f.grad_scale;
    const float new_m = Canonical(f.beta1 * m[i] + f.one_minus_beta1 * g);
    const float new_v = Canonical(f.beta2 * v[i] + f.one_minus_beta2 * (g * g));
    const float decayed = master[i] - f.decay * master[i];
    const float denominator = __builtin_sqrtf(new_v) / f.root_bias2 + f.eps;
    m[i] = new_m;
    v[i] = new_v;
    master[i] = Canonical(decayed - f.step_size * new_m / denominator);
  }
}

}  // namespace thinwire::kernels::THINWIRE_ISA
