#include "thinwire/torch/outside_optimizer.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::adapter {
namespace {

at::Tensor TensorOf(std::span<float> values) {
  if (values.empty()) return {};
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kFloat);
}

class OutsideOptimizer final : public optim::Optimizer {
 public:
  OutsideOptimizer(std::string name, std::vector<std::string> states, OutsideStep step)
      : name_(std::move(name)), states_(std::move(states)), step_(std::move(step)) {}

  std::string_view name() const override { return name_; }
  std::vector<std::string_view> states() const override { return {states_.begin(), states_.end()}; }
  bool whole_parameters() const override { return true; }
  void Check(const optim::GroupSettings&, int) const override {}

  void Apply(const optim::StepContext& context,
             std::span<const optim::Stretch> stretches) const override {
    const c10::AutoGradMode no_grad(false);
    std::vector<OwnedTensors> owned;
    for (const optim::Stretch& stretch : stretches) {
      at::Tensor gradient = TensorOf(stretch.gradient);
      if (gradient.defined() && context.grad_scale != 1.0f) gradient.mul_(context.grad_scale);
      std::vector<at::Tensor> states;
      for (size_t s = 0; s < states_.size(); ++s) states.push_back(TensorOf(stretch.states[s]));
      owned.push_back(
          {stretch.group, TensorOf(stretch.master), std::move(gradient), std::move(states)});
    }
    step_(owned);
  }

 private:
  const std::string name_;
  const std::vector<std::string> states_;
  const OutsideStep step_;
};

}  // namespace

optim::OptimizerPtr MakeOutsideOptimizer(std::string name, std::vector<std::string> states,
                                         OutsideStep step) {
  if (states.size() > optim::kMostStates) {
    throw UsageError(StrCat(name, " keeps ", states.size(),
                            " values per element, expected at most ", optim::kMostStates));
  }
  return std::make_shared<OutsideOptimizer>(std::move(name), std::move(states), std::move(step));
}

}  // namespace thinwire::adapter
