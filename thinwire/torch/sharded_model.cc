#include "thinwire/torch/sharded_model.h"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include "thinwire/base/error.h"
#include "thinwire/torch/backward_node.h"
#include "thinwire/torch/unit_tensors.h"

namespace thinwire::adapter {
namespace {

using at::Tensor;
using torch::autograd::Node;
using TensorList = std::vector<Tensor>;

}  // namespace

class ShardedModel::Impl {
 public:
  explicit Impl(zero::Engine& engine) : engine_(engine) {
    const zero::Plan& plan = engine.plan();
    for (size_t u = 0; u < plan.units.size(); ++u) {
      units_.emplace_back(plan.units[u]);
      if (!plan.units[u].spec.weights_in_backward) units_.back().weights_in_backward = false;
      WatchGradients(u);
    }
  }

  ~Impl() {
    for (Unit& unit : units_) unit.weights.Point(nullptr);
  }

  const Tensor& parameter(int unit, int index) const {
    return units_.at(static_cast<size_t>(unit)).weights.tensor(static_cast<size_t>(index));
  }

  double TrainPass(bool last_micro_batch, const std::function<Tensor()>& forward) {
    for (Unit& unit : units_) unit.weights.BumpVersions();
    engine_.BeginPass(zero::PassKind::kTrain, last_micro_batch);
    training_ = true;
    Tensor loss;
    {
      const c10::AutoGradMode grad(true);
      loss = forward();
      // Scaled as the engine wants it, which then takes the scale out of the gradients again.
      torch::autograd::backward({loss}, {loss.new_full({}, engine_.loss_scale())});
    }
    training_ = false;
    FinishBackward();
    engine_.EndPass();
    return loss.item().toDouble();
  }

  double EvaluatePass(const std::function<Tensor()>& forward) {
    engine_.BeginPass(zero::PassKind::kEvaluate, true);
    const c10::AutoGradMode grad(false);
    const Tensor loss = forward();
    engine_.EndPass();
    return loss.item().toDouble();
  }

  Tensor Run(int u, const Tensor& x, const Body& body, Use use) {
    if (!training_) {
      Acquire(u);
      Tensor y = body(x);
      Release(u);
      return y;
    }
    return use.checkpoint ? RunCheckpointed(u, x, body) : RunSaving(u, x, body, use);
  }

  Use DefaultUse(int unit) const {
    return {false, units_.at(static_cast<size_t>(unit)).weights_in_backward};
  }

 private:
  struct Unit {
    UnitTensors weights;
    UnitTensors gradients;  // views of the engine's gradient buffer while it is filled
    std::vector<c10::intrusive_ptr<Node>> accumulators;  // parameters hold them weakly
    std::vector<bool> arrived;                           // gradients of this pass, by parameter
    size_t missing = 0;
    int acquired = 0;      // uses that hold the weights
    bool reduced = false;  // in this pass
    bool weights_in_backward = true;

    explicit Unit(const zero::UnitLayout& layout)
        : weights(layout),
          gradients(layout),
          arrived(layout.places.size()),
          missing(layout.places.size()) {}
  };

  Unit& unit(int u) { return units_[static_cast<size_t>(u)]; }
  const std::string& NameOfUnit(int u) const {
    return engine_.plan().units[static_cast<size_t>(u)].spec.name;
  }

  void Acquire(int u) {
    unit(u).weights.Point(engine_.Acquire(u));
    ++unit(u).acquired;
  }

  void Release(int u) {
    if (--unit(u).acquired == 0) unit(u).weights.Point(nullptr);
    engine_.Release(u);
  }

  // Keeps activations; the weights come back before their part of backward and go after it.
  Tensor RunSaving(int u, const Tensor& x, const Body& body, const Use& use) {
    const bool needs_weights = use.weights_in_backward;
    Tensor in = x;
    // Without a gradient to pass there is no place for this: FinishBackward() releases instead.
    if (needs_weights && x.requires_grad()) {
      in = AttachBackward(x, x, [this, u](TensorList&& gradients) {
        Release(u);
        return std::move(gradients);
      });
    }
    Acquire(u);
    Tensor y = body(in);
    Release(u);
    if (!needs_weights || !y.requires_grad()) return y;
    return AttachBackward(y, y, [this, u](TensorList&& gradients) {
      Acquire(u);
      return std::move(gradients);
    });
  }

  Tensor RunCheckpointed(int u, const Tensor& x, const Body& body) {
    Tensor y;
    Acquire(u);
    {
      const c10::AutoGradMode grad(false);
      y = body(x);
    }
    Release(u);
    return AttachBackward(y, x, [this, u, x, body](TensorList&& gradients) -> TensorList {
      const c10::AutoGradMode grad(true);
      Acquire(u);
      Tensor again = x.detach();
      again.set_requires_grad(x.requires_grad());
      torch::autograd::backward({body(again)}, {gradients[0]});
      Release(u);
      return {again.grad()};
    });
  }

  // Notices when every parameter of the unit has its gradient of this pass.
  void WatchGradients(size_t u) {
    Unit& watched = units_[u];
    for (size_t p = 0; p < watched.weights.size(); ++p) {
      const Tensor& parameter = watched.weights.tensor(p);
      parameter.set_requires_grad(true);
      c10::intrusive_ptr<Node> accumulator = torch::autograd::impl::grad_accumulator(parameter);
      accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
          [this, u, p](const TensorList& outputs, const TensorList&) {
            GradientArrived(u, p);
            return outputs;
          }));
      watched.accumulators.push_back(std::move(accumulator));
    }
  }

  void GradientArrived(size_t u, size_t p) {
    Unit& arrived = units_[u];
    THINWIRE_CHECK(!arrived.reduced, "a gradient of ", NameOfUnit(static_cast<int>(u)),
                   " came after its reduction: a unit used twice must not be checkpointed");
    if (arrived.arrived[p]) return;
    arrived.arrived[p] = true;
    if (--arrived.missing == 0) Reduce(static_cast<int>(u));
  }

  void Reduce(int u) {
    Unit& reduced = unit(u);
    reduced.gradients.Point(engine_.GradientBuffer(u));
    for (size_t p = 0; p < reduced.weights.size(); ++p) {
      Tensor& gradient = reduced.weights.tensor(p).mutable_grad();
      if (gradient.defined()) {
        reduced.gradients.tensor(p).copy_(gradient);
        gradient.reset();
      } else {
        reduced.gradients.tensor(p).zero_();
      }
    }
    reduced.gradients.Point(nullptr);
    reduced.reduced = true;
    engine_.ReduceGradients(u);
  }

  // Units whose gradients came in part reduce zeros for the rest; units without any are left to the
  // engine. Everything is back to the state between passes.
  void FinishBackward() {
    for (int u = static_cast<int>(units_.size()) - 1; u >= 0; --u) {
      Unit& finished = unit(u);
      while (finished.acquired > 0) Release(u);
      if (!finished.reduced && finished.missing < finished.weights.size()) Reduce(u);
      finished.reduced = false;
      finished.missing = finished.weights.size();
      finished.arrived.assign(finished.weights.size(), false);
    }
  }

  zero::Engine& engine_;
  std::vector<Unit> units_;
  bool training_ = false;
};

ShardedModel::ShardedModel(zero::Engine& engine) : impl_(std::make_unique<Impl>(engine)) {}
ShardedModel::~ShardedModel() = default;
const Tensor& ShardedModel::parameter(int unit, int index) const {
  return impl_->parameter(unit, index);
}
double ShardedModel::TrainPass(bool last_micro_batch, const std::function<Tensor()>& forward) {
  return impl_->TrainPass(last_micro_batch, forward);
}
double ShardedModel::EvaluatePass(const std::function<Tensor()>& forward) {
  return impl_->EvaluatePass(forward);
}
Tensor ShardedModel::Run(int unit, const Tensor& x, const Body& body, Use use) {
  return impl_->Run(unit, x, body, use);
}
Tensor ShardedModel::Run(int unit, const Tensor& x, const Body& body) {
  return impl_->Run(unit, x, body, impl_->DefaultUse(unit));
}

}  // namespace thinwire::adapter
