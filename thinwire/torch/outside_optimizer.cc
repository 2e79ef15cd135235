#include "thinwire/torch/outside_optimizer.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

#include <utility>

namespace thinwire::adapter {
namespace {

at::Tensor TensorOf(std::span<float> values) {
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kFloat);
}

class OutsideOptimizer final : public optim::Optimizer {
 public:
  OutsideOptimizer(std::string name, OutsideStep step)
      : name_(std::move(name)), step_(std::move(step)) {}

  std::string_view name() const override { return name_; }
  std::vector<std::string_view> states() const override { return {}; }
  bool whole_parameters() const override { return true; }
  void Check(const optim::GroupSettings&, int) const override {}

  void Apply(const optim::StepContext& context,
             std::span<const optim::Stretch> stretches) const override {
    const c10::AutoGradMode no_grad(false);
    std::vector<OwnedTensors> owned;
    for (const optim::Stretch& stretch : stretches) {
      at::Tensor gradient = TensorOf(stretch.gradient);
      if (context.grad_scale != 1.0f) gradient.mul_(context.grad_scale);
      owned.push_back({stretch.parameter, stretch.offset, stretch.group, TensorOf(stretch.master),
                       std::move(gradient)});
    }
    step_(owned);
  }

 private:
  const std::string name_;
  const OutsideStep step_;
};

}  // namespace

optim::OptimizerPtr MakeOutsideOptimizer(std::string name, OutsideStep step) {
  return std::make_shared<OutsideOptimizer>(std::move(name), std::move(step));
}

}  // namespace thinwire::adapter
