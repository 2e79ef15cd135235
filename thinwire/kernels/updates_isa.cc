#include "thinwire/kernels/updates_isa.h"

#include "thinwire/kernels/elements-inl.h"

namespace thinwire::kernels::THINWIRE_ISA {
namespace {

template <bool kMomentum, bool kNesterov>
void SgdLoop(const SgdFactors& factors, const float* grad, float* master, float* buffer,
             int64_t size) {
  const SgdFactors f = factors;
#pragma GCC ivdep
  for (int64_t i = 0; i < size; ++i) {
    float g = grad[i] * f.grad_scale + f.weight_decay * master[i];
    if constexpr (kMomentum) {
      const float b = Canonical(f.keep * buffer[i] + f.add * g);
      buffer[i] = b;
      g = kNesterov ? g + f.momentum * b : b;
    }
    master[i] = Canonical(master[i] - f.lr * g);
  }
}

}  // namespace

void Adam(const AdamWFactors& factors, const float* grad, float* master, float* m, float* v,
          int64_t size) {
  const AdamWFactors f = factors;  // a copy that no store below can be taken to change
#pragma GCC ivdep
  for (int64_t i = 0; i < size; ++i) {
    const float g = grad[i] * f.grad_scale + f.decay * master[i];
    const float new_m = Canonical(f.beta1 * m[i] + f.one_minus_beta1 * g);
    const float new_v = Canonical(f.beta2 * v[i] + f.one_minus_beta2 * (g * g));
    const float denominator = __builtin_sqrtf(new_v) / f.root_bias2 + f.eps;
    m[i] = new_m;
    v[i] = new_v;
    master[i] = Canonical(master[i] - f.step_size * new_m / denominator);
  }
}

void Sgd(const SgdFactors& factors, bool nesterov, const float* grad, float* master, float* buffer,
         int64_t size) {
  if (buffer == nullptr) return SgdLoop<false, false>(factors, grad, master, buffer, size);
  if (nesterov) return SgdLoop<true, true>(factors, grad, master, buffer, size);
  SgdLoop<true, false>(factors, grad, master, buffer, size);
}

void Lion(const LionFactors& factors, const float* grad, float* master, float* m, int64_t size) {
  const LionFactors f = factors;
#pragma GCC ivdep
  for (int64_t i = 0; i < size; ++i) {
    const float g = grad[i] * f.grad_scale;
    const float c = f.beta1 * m[i] + f.one_minus_beta1 * g;
    const float sign = c > 0 ? 1.0f : (c < 0 ? -1.0f : c);  // 0 and NaN are their own
    const float decayed = master[i] - f.decay * master[i];
    master[i] = Canonical(decayed - f.lr * sign);
    m[i] = Canonical(f.beta2 * m[i] + f.one_minus_beta2 * g);
  }
}

void LambDirection(const AdamWFactors& factors, float* grad, const float* master, float* m,
                   float* v, int64_t size) {
  const AdamWFactors f = factors;
#pragma GCC ivdep
  for (int64_t i = 0; i < size; ++i) {
    const float g = grad[i] * f.grad_scale;
    const float new_m = Canonical(f.beta1 * m[i] + f.one_minus_beta1 * g);
    const float new_v = Canonical(f.beta2 * v[i] + f.one_minus_beta2 * (g * g));
    const float denominator = __builtin_sqrtf(new_v) / f.root_bias2 + f.eps;
    m[i] = new_m;
    v[i] = new_v;
    grad[i] = Canonical(new_m / f.step_size / denominator + f.decay * master[i]);
  }
}

void SubtractScaled(float factor, const float* x, float* y, int64_t size) {
#pragma GCC ivdep
  for (int64_t i = 0; i < size; ++i) y[i] = Canonical(y[i] - factor * x[i]);
}

}  // namespace thinwire::kernels::THINWIRE_ISA
