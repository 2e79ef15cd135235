#include "thinwire/kernels/adamw.h"

#include <cmath>

#include "thinwire/kernels/adamw_isa.h"

namespace thinwire::kernels {

float BiasCorrection(float beta, int64_t step) {
  return static_cast<float>(1.0 - std::pow(static_cast<double>(beta), static_cast<double>(step)));
}

void AdamW(const ExecContext& context, const AdamWStep& step, std::span<const float> grad,
           std::span<float> master, std::span<float> m, std::span<float> v) {
  THINWIRE_CHECK(step.step >= 1, "step ", step.step);
  THINWIRE_CHECK(
      grad.size() == master.size() && m.size() == master.size() && v.size() == master.size(),
      grad.size(), ", ", master.size(), ", ", m.size(), ", ", v.size());
  const AdamWFactors factors{.grad_scale = step.grad_scale,
                             .beta1 = step.beta1,
                             .one_minus_beta1 = 1.0f - step.beta1,
                             .beta2 = step.beta2,
                             .one_minus_beta2 = 1.0f - step.beta2,
                             .decay = step.lr * step.weight_decay,
                             .step_size = step.lr / BiasCorrection(step.beta1, step.step),
                             .root_bias2 = std::sqrt(BiasCorrection(step.beta2, step.step)),
                             .eps = step.eps};
  THINWIRE_PICK(context.isa, AdamW)
  (factors, grad.data(), master.data(), m.data(), v.data(), static_cast<int64_t>(master.size()));
}

}  // namespace thinwire::kernels
