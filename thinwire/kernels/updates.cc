#include "thinwire/kernels/updates.h"

#include <cmath>

#include "thinwire/kernels/updates_isa.h"

namespace thinwire::kernels {
namespace {

AdamWFactors FactorsOf(const AdamWStep& step) {
  return {.grad_scale = step.grad_scale,
          .beta1 = step.beta1,
          .one_minus_beta1 = 1.0f - step.beta1,
          .beta2 = step.beta2,
          .one_minus_beta2 = 1.0f - step.beta2,
          .decay = step.weight_decay,
          .step_size = 0,
          .root_bias2 = std::sqrt(BiasCorrection(step.beta2, step.step)),
          .eps = step.eps};
}

// All as long as `master`.
template <typename... Spans>
int64_t CheckedSize(int64_t step, std::span<const float> master, const Spans&... others) {
  THINWIRE_CHECK(step >= 1, "step ", step);
  THINWIRE_CHECK(((others.size() == master.size()) && ...), "spans of different sizes beside ",
                 master.size());
  return static_cast<int64_t>(master.size());
}

}  // namespace

void Adam(const ExecContext& context, const AdamWStep& step, std::span<const float> grad,
          std::span<float> master, std::span<float> m, std::span<float> v) {
  const int64_t size = CheckedSize(step.step, master, grad, m, v);
  AdamWFactors factors = FactorsOf(step);
  factors.step_size = step.lr / BiasCorrection(step.beta1, step.step);
  THINWIRE_PICK(context.isa, Adam)
  (factors, grad.data(), master.data(), m.data(), v.data(), size);
}

void Sgd(const ExecContext& context, const SgdStep& step, std::span<const float> grad,
         std::span<float> master, std::span<float> buffer) {
  const bool plain = step.momentum == 0;
  const int64_t size = CheckedSize(step.step, master, grad);
  if (!plain) CheckedSize(step.step, master, buffer);
  const bool first = step.step == 1;
  const SgdFactors factors{.grad_scale = step.grad_scale,
                           .weight_decay = step.weight_decay,
                           .lr = step.lr,
                           .momentum = step.momentum,
                           .keep = first ? 0.0f : step.momentum,
                           .add = first ? 1.0f : 1.0f - step.dampening};
  THINWIRE_PICK(context.isa, Sgd)
  (factors, step.nesterov, grad.data(), master.data(), plain ? nullptr : buffer.data(), size);
}

void Lion(const ExecContext& context, const LionStep& step, std::span<const float> grad,
          std::span<float> master, std::span<float> m) {
  const int64_t size = CheckedSize(1, master, grad, m);
  const LionFactors factors{.grad_scale = step.grad_scale,
                            .beta1 = step.beta1,
                            .one_minus_beta1 = 1.0f - step.beta1,
                            .beta2 = step.beta2,
                            .one_minus_beta2 = 1.0f - step.beta2,
                            .decay = step.lr * step.weight_decay,
                            .lr = step.lr};
  THINWIRE_PICK(context.isa, Lion)(factors, grad.data(), master.data(), m.data(), size);
}

void LambDirection(const ExecContext& context, const AdamWStep& step, std::span<float> grad,
                   std::span<const float> master, std::span<float> m, std::span<float> v) {
  const int64_t size = CheckedSize(step.step, master, grad, m, v);
  AdamWFactors factors = FactorsOf(step);
  factors.step_size = BiasCorrection(step.beta1, step.step);
  THINWIRE_PICK(context.isa, LambDirection)
  (factors, grad.data(), master.data(), m.data(), v.data(), size);
}

void SubtractScaled(const ExecContext& context, float factor, std::span<const float> x,
                    std::span<float> y) {
  const int64_t size = CheckedSize(1, y, x);
  THINWIRE_PICK(context.isa, SubtractScaled)(factor, x.data(), y.data(), size);
}

}  // namespace thinwire::kernels
