#include "thinwire/optim/native.h"

#include <algorithm>
#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/kernels/adamw.h"
#include "thinwire/kernels/sum.h"
#include "thinwire/kernels/updates.h"

namespace thinwire::optim {
namespace {

kernels::AdamWStep AdamStepOf(const StepContext& step, const GroupSettings& group) {
  return {.lr = group.lr,
          .beta1 = group.beta1,
          .beta2 = group.beta2,
          .eps = group.eps,
          .weight_decay = group.weight_decay,
          .grad_scale = step.grad_scale,
          .step = step.step};
}

const GroupSettings& GroupOf(const StepContext& step, const Stretch& stretch) {
  return step.groups[static_cast<size_t>(stretch.group)];
}

void Require(bool ok, std::string_view setting, float found, std::string_view expected, int group) {
  if (ok) return;
  throw UsageError(StrCat("the optimizer's ", setting, " = ", found, " of parameter group ", group,
                          ": it must be ", expected));
}

void CheckRates(const GroupSettings& settings, int group) {
  Require(settings.lr >= 0 && std::isfinite(settings.lr), "lr", settings.lr,
          "0 or a positive number", group);
  Require(settings.weight_decay >= 0 && std::isfinite(settings.weight_decay), "weight_decay",
          settings.weight_decay, "0 or a positive number", group);
}

void CheckBetas(const GroupSettings& settings, int group) {
  Require(settings.beta1 >= 0 && settings.beta1 < 1, "beta1", settings.beta1, "in [0, 1)", group);
  Require(settings.beta2 >= 0 && settings.beta2 < 1, "beta2", settings.beta2, "in [0, 1)", group);
}

// Optimizers with Adam's two moments.
class Moments : public Optimizer {
 public:
  std::vector<std::string_view> states() const override { return {"m", "v"}; }
  void Check(const GroupSettings& settings, int group) const override {
    CheckRates(settings, group);
    CheckBetas(settings, group);
    Require(settings.eps > 0 && std::isfinite(settings.eps), "eps", settings.eps, "positive",
            group);
  }
};

class AdamWOptimizer final : public Moments {
 public:
  std::string_view name() const override { return "AdamW"; }
  void Apply(const StepContext& step, std::span<const Stretch> stretches) const override {
    for (const Stretch& s : stretches) {
      kernels::AdamW(step.exec, AdamStepOf(step, GroupOf(step, s)), s.gradient, s.master,
                     s.states[0], s.states[1]);
    }
  }
};

class AdamOptimizer final : public Moments {
 public:
  std::string_view name() const override { return "Adam"; }
  void Apply(const StepContext& step, std::span<const Stretch> stretches) const override {
    for (const Stretch& s : stretches) {
      kernels::Adam(step.exec, AdamStepOf(step, GroupOf(step, s)), s.gradient, s.master,
                    s.states[0], s.states[1]);
    }
  }
};

class LionOptimizer final : public Optimizer {
 public:
  std::string_view name() const override { return "Lion"; }
  std::vector<std::string_view> states() const override { return {"m"}; }
  void Check(const GroupSettings& settings, int group) const override {
    CheckRates(settings, group);
    CheckBetas(settings, group);
  }
  void Apply(const StepContext& step, std::span<const Stretch> stretches) const override {
    for (const Stretch& s : stretches) {
      const GroupSettings& group = GroupOf(step, s);
      kernels::Lion(step.exec,
                    {.lr = group.lr,
                     .beta1 = group.beta1,
                     .beta2 = group.beta2,
                     .weight_decay = group.weight_decay,
                     .grad_scale = step.grad_scale},
                    s.gradient, s.master, s.states[0]);
    }
  }
};

class SgdOptimizer final : public Optimizer {
 public:
  explicit SgdOptimizer(bool momentum) : momentum_(momentum) {}

  std::string_view name() const override { return momentum_ ? "SGD with momentum" : "SGD"; }
  std::vector<std::string_view> states() const override {
    if (!momentum_) return {};
    return {"momentum"};
  }
  void Check(const GroupSettings& settings, int group) const override {
    CheckRates(settings, group);
    const float momentum = settings.momentum;
    Require(momentum >= 0 && momentum < 1, "momentum", momentum, "in [0, 1)", group);
    Require(momentum_ || momentum == 0, "momentum", momentum,
            "0 in SGD that keeps no momentum: take SGD with momentum", group);
    const float dampening = settings.dampening;
    Require(dampening >= 0 && dampening <= 1, "dampening", dampening, "in [0, 1]", group);
    Require(!settings.nesterov || (momentum > 0 && dampening == 0), "dampening", dampening,
            "0, and the momentum positive, with nesterov", group);
  }
  void Apply(const StepContext& step, std::span<const Stretch> stretches) const override {
    for (const Stretch& s : stretches) {
      const GroupSettings& group = GroupOf(step, s);
      kernels::Sgd(step.exec,
                   {.lr = group.lr,
                    .momentum = group.momentum,
                    .dampening = group.dampening,
                    .weight_decay = group.weight_decay,
                    .nesterov = group.nesterov,
                    .grad_scale = step.grad_scale,
                    .step = step.step},
                   s.gradient, s.master, s.states[0]);
    }
  }

 private:
  bool momentum_;
};

class LambOptimizer final : public Moments {
 public:
  std::string_view name() const override { return "LAMB"; }
  bool whole_parameters() const override { return true; }
  void Apply(const StepContext& step, std::span<const Stretch> stretches) const override {
    // Squared norms of each parameter and of its direction; what this rank owns of them.
    const std::span<double> squares = step.room;
    std::fill(squares.begin(), squares.end(), 0.0);
    for (const Stretch& s : stretches) {
      if (s.gradient.empty()) continue;
      kernels::LambDirection(step.exec, AdamStepOf(step, GroupOf(step, s)), s.gradient, s.master,
                             s.states[0], s.states[1]);
      const size_t at = 2 * static_cast<size_t>(s.parameter);
      squares[at] += kernels::SumOfSquares(step.exec, s.master);
      squares[at + 1] += kernels::SumOfSquares(step.exec, s.gradient);
    }
    step.sum_over_ranks(squares);
    for (const Stretch& s : stretches) {
      if (s.gradient.empty()) continue;
      const size_t at = 2 * static_cast<size_t>(s.parameter);
      const double trust = Trust(std::sqrt(squares[at]), std::sqrt(squares[at + 1]));
      const double rate = static_cast<double>(GroupOf(step, s).lr) * trust;
      kernels::SubtractScaled(step.exec, static_cast<float>(rate), s.gradient, s.master);
    }
  }

 private:
  static double Trust(double weight, double direction) {
    if (weight == 0 || direction == 0) return 1;
    return std::clamp(weight / direction, kLeastTrust, kMostTrust);
  }
};

}  // namespace

uint64_t Fingerprint(std::span<const GroupSettings> groups) {
  uint64_t hash = groups.size();
  for (const GroupSettings& group : groups) {
    for (const float value : {group.lr, group.weight_decay, group.beta1, group.beta2, group.eps,
                              group.momentum, group.dampening, group.nesterov ? 1.0f : 0.0f}) {
      hash = Mix64(hash ^ __builtin_bit_cast(uint32_t, value));
    }
  }
  return hash;
}

OptimizerPtr MakeAdamW() { return std::make_shared<AdamWOptimizer>(); }
OptimizerPtr MakeAdam() { return std::make_shared<AdamOptimizer>(); }
OptimizerPtr MakeSgd(bool momentum) { return std::make_shared<SgdOptimizer>(momentum); }
OptimizerPtr MakeLion() { return std::make_shared<LionOptimizer>(); }
OptimizerPtr MakeLamb() { return std::make_shared<LambOptimizer>(); }

OptimizerPtr ByName(std::string_view name) {
  if (name == "adamw") return MakeAdamW();
  if (name == "adam") return MakeAdam();
  if (name == "sgd") return MakeSgd(false);
  if (name == "sgd_momentum") return MakeSgd(true);
  if (name == "lion") return MakeLion();
  if (name == "lamb") return MakeLamb();
  throw UsageError(StrCat("optimizer \"", name,
                          "\" is not known: choose one of adamw, adam, sgd, sgd_momentum, lion, "
                          "lamb"));
}

}  // namespace thinwire::optim
