#include "thinwire/torch/module_adapter.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/torch/backward_node.h"
#include "thinwire/torch/borrowed_parameter.h"
#include "thinwire/torch/dtype.h"
#include "thinwire/torch/hop_ranges.h"
#include "thinwire/torch/unit_tensors.h"

namespace thinwire::adapter {
namespace {

using at::Tensor;
using TensorList = std::vector<Tensor>;

// One run of a module's forward, and what becomes of it in backward.
struct Call {
  int module = 0;
  int64_t pass = 0;
  bool watches_inputs = false;
  bool recomputed = false;  // this forward ran inside backward
  bool holds = false;       // its part of backward has the weights
};

struct Unit {
  std::vector<BorrowedParameter> parameters;
  std::vector<int64_t> offsets;  // bytes in the unit's flat
  UnitTensors gradients;         // views of the engine's gradient buffer while it is filled
  std::vector<int> missing{};    // parameters without a gradient, when it was filled last
  int holders = 0;               // forwards and backwards that use the weights now
  bool trainable = true;
  bool weights_in_backward = true;
};

// What backward still owes a module in this pass; see Impl::EndBackwardOf.
struct Module {
  std::vector<int> units;
  int awaited = 0;       // forwards with grad whose part of backward has not ended
  int perhaps = 0;       // forwards without grad that backward may run again
  bool used = false;     // in this pass
  bool reduced = false;  // in this pass
};

}  // namespace

class ModuleAdapter::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(zero::Engine& engine, const std::vector<std::vector<Tensor>>& parameters,
       UnitsOfModule units_of_module);
  ~Impl();

  void PreForward(int module, TensorList& tensors);
  void PostForward(int module, TensorList& tensors);
  zero::StepResult Step(const zero::StepInput& input);
  void RefreshWeights(const zero::OptimizerProgress* progress);
  bool Abandon();
  void Settle();
  void ExpectNoBackward() { backward_to_come_.reset(); }
  void ServeUntilAllDone();
  void Lend(int unit, int parameter, const Tensor& values);
  void TakeBack(int unit, int parameter);
  bool in_pass() const { return open_; }
  int micro_batches_done() const { return micro_batches_done_; }
  void EndStepsAfter(int micro_batches) { step_length_ = micro_batches; }
  bool ends_step() const { return (open_ && training_) || step_is_due() ? last_ : NextEndsStep(); }
  bool step_is_due() const { return !open_ && micro_batches_done_ > 0 && last_; }

 private:
  // --- passes
  void Begin();
  void End();
  void EnterBackward();
  void FinishBackward();
  void CheckPassOf(const Call& call) const;
  bool NoBackwardCanEnd() const;
  bool NextEndsStep() const { return micro_batches_done_ + 1 >= step_length_; }
  void BumpVersions();

  // --- units
  void Acquire(int u);
  void Release(int u);
  void AcquireAll(const Call& call, bool backward);
  void ReleaseAll(const Call& call, bool backward);
  void BeginBackwardOf(Call& call);
  void EndBackwardOf(Call& call);
  void Reduce(Module& module);
  void ReduceUnit(int u);

  Module& module(int m) { return modules_[static_cast<size_t>(m)]; }
  Unit& unit(int u) { return units_[static_cast<size_t>(u)]; }
  const std::string& NameOfUnit(int u) const {
    return engine_.plan().units[static_cast<size_t>(u)].spec.name;
  }

  zero::Engine& engine_;
  HopRanges ranges_;
  std::vector<Unit> units_;
  std::vector<Module> modules_;
  std::vector<std::shared_ptr<Call>> calls_;  // forwards that are under way, innermost last
  int64_t pass_ = 0;                          // number of the one that began last
  bool open_ = false;                         // it is under way
  bool training_ = false;                     // its kind
  bool in_backward_ = false;
  int micro_batches_done_ = 0;
  int step_length_ = 1;  // micro-batches
  bool last_ = false;    // of the training pass that began last and counts: it ends the step
  // Held by the autograd nodes of this pass's outputs: when nobody else holds it, no backward can
  // come.
  std::shared_ptr<int> backward_to_come_;
};

ModuleAdapter::Impl::Impl(zero::Engine& engine, const std::vector<std::vector<Tensor>>& parameters,
                          UnitsOfModule units_of_module)
    : engine_(engine),
      ranges_(engine),
      step_length_(std::max(1, engine.plan().options.micro_batches)) {
  const zero::Plan& plan = engine.plan();
  THINWIRE_CHECK(parameters.size() == plan.units.size(), parameters.size(), " units");
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const zero::UnitLayout& layout = plan.units[u];
    THINWIRE_CHECK(parameters[u].size() == layout.places.size(), parameters[u].size(),
                   " parameters of ", layout.spec.name);
    Unit& unit = units_.emplace_back(Unit{.parameters = {},
                                          .offsets = {},
                                          .gradients = UnitTensors(layout),
                                          .trainable = layout.spec.trainable,
                                          .weights_in_backward = layout.spec.weights_in_backward});
    for (size_t p = 0; p < layout.places.size(); ++p) {
      unit.parameters.emplace_back(parameters[u][p], layout.spec.parameters[p].name,
                                   ScalarTypeOf(layout.compute));
      unit.offsets.push_back(layout.places[p].offset * SizeOf(layout.compute));
    }
  }
  for (std::vector<int>& units : units_of_module) {
    modules_.push_back({.units = std::move(units)});
  }
}

ModuleAdapter::Impl::~Impl() {
  for (Unit& unit : units_) {
    for (BorrowedParameter& parameter : unit.parameters) parameter.Release();
  }
}

// --- passes

void ModuleAdapter::Impl::Begin() {
  training_ = c10::GradMode::is_enabled();
  if (training_) last_ = NextEndsStep();
  ranges_.Report();
  engine_.BeginPass(training_ ? zero::PassKind::kTrain : zero::PassKind::kEvaluate,
                    !training_ || last_);
  ++pass_;
  open_ = true;
  in_backward_ = false;
  backward_to_come_ = std::make_shared<int>(0);
  for (Module& module : modules_) {
    module.awaited = module.perhaps = 0;
    module.used = module.reduced = false;
  }
}

void ModuleAdapter::Impl::End() {
  engine_.EndPass();
  ranges_.Report();
  open_ = in_backward_ = false;
  backward_to_come_.reset();
  if (training_) ++micro_batches_done_;
}

// Autograd's callback at the end of backward is not called when backward raises an error: then
// there is no backward under way any more that could come to its end.
bool ModuleAdapter::Impl::NoBackwardCanEnd() const {
  return in_backward_ ? torch::autograd::get_current_graph_task_id() == -1
                      : backward_to_come_.use_count() <= 1;
}

void ModuleAdapter::Impl::Settle() {
  if (open_ && calls_.empty() && NoBackwardCanEnd()) Abandon();
}

bool ModuleAdapter::Impl::Abandon() {
  if (!open_) return false;
  if (!calls_.empty()) throw UsageError("a pass is abandoned inside of its forward");
  for (Unit& unit : units_) {
    if (std::exchange(unit.holders, 0) > 0) {
      for (BorrowedParameter& parameter : unit.parameters) parameter.Release();
    }
    unit.gradients.Point(nullptr);
    for (BorrowedParameter& parameter : unit.parameters) parameter.tensor().mutable_grad().reset();
  }
  open_ = in_backward_ = false;
  backward_to_come_.reset();
  micro_batches_done_ = engine_.AbandonPass();
  if (training_) last_ = false;  // none before it was: a step would have come between
  return true;
}

void ModuleAdapter::Impl::ServeUntilAllDone() {
  Settle();
  if (open_) throw UsageError("evaluation passes are served between a forward and its backward");
  engine_.ServeUntilAllDone();
}

void ModuleAdapter::Impl::CheckPassOf(const Call& call) const {
  if (open_ && call.pass == pass_) return;
  throw UsageError(
      open_ ? "backward through a forward of an earlier pass, which ended or was abandoned"
            : "a second backward through one forward: add the losses and call backward once");
}

// The first node of ours that a backward reaches is one of the outermost forward's outputs, so its
// end is the end of all of it, also where modules run backwards of their own within.
void ModuleAdapter::Impl::EnterBackward() {
  if (in_backward_) return;
  in_backward_ = true;
  torch::autograd::Engine::get_default_engine().queue_callback([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->FinishBackward();
  });
}

// Modules whose part of backward had no end of its own (inputs without grad, uses that backward did
// not reach) end here, in one order on all ranks.
void ModuleAdapter::Impl::FinishBackward() {
  for (auto module = modules_.rbegin(); module != modules_.rend(); ++module) {
    for (const int u : module->units) {
      while (unit(u).holders > 0) Release(u);
    }
    if (module->used && !module->reduced) Reduce(*module);
  }
  for (Unit& unit : units_) {
    for (BorrowedParameter& parameter : unit.parameters) {
      if (!parameter.tensor().grad().defined()) continue;
      throw UsageError(StrCat(
          "rank ", engine_.plan().topology.rank(), ": parameter ", parameter.name(),
          unit.trainable
              ? " got a gradient from outside the module that it belongs to: name a module that "
                "encloses all of its uses as a unit"
              : " got a gradient, but did not require one when thinwire took it over: set "
                "requires_grad before initialize()"));
    }
  }
  End();
}

void ModuleAdapter::Impl::BumpVersions() {
  for (Unit& unit : units_) {
    for (BorrowedParameter& parameter : unit.parameters) parameter.BumpVersion();
  }
}

zero::StepResult ModuleAdapter::Impl::Step(const zero::StepInput& input) {
  Settle();
  if (open_ || micro_batches_done_ == 0) {
    throw UsageError(StrCat("rank ", engine_.plan().topology.rank(),
                            ": step() before the backward of the last forward: call "
                            "engine.backward(loss) first, with a loss made of what forward "
                            "returned in tensors, lists, tuples, dictionaries or dataclasses"));
  }
  micro_batches_done_ = 0;
  const zero::StepResult result = engine_.Step(input);
  ranges_.Report();
  BumpVersions();
  return result;
}

void ModuleAdapter::Impl::RefreshWeights(const zero::OptimizerProgress* progress) {
  Settle();
  if (open_) throw UsageError("weights are changed between a forward and its backward");
  if (progress != nullptr) {
    micro_batches_done_ = 0;
    engine_.RefreshWeights(*progress);
  } else {
    engine_.RefreshWeights();
  }
  BumpVersions();
}

void ModuleAdapter::Impl::Lend(int u, int parameter, const Tensor& values) {
  if (open_) throw UsageError("whole parameters are asked for between a forward and its backward");
  unit(u).parameters.at(static_cast<size_t>(parameter)).Lend(values);
}

void ModuleAdapter::Impl::TakeBack(int u, int parameter) {
  unit(u).parameters.at(static_cast<size_t>(parameter)).TakeBack();
}

// --- forward

void ModuleAdapter::Impl::PreForward(int m, TensorList& tensors) {
  Settle();
  const auto call = std::make_shared<Call>(Call{.module = m});
  calls_.push_back(call);
  if (!open_) Begin();
  call->pass = pass_;
  call->recomputed = in_backward_;
  AcquireAll(*call, false);
  if (!training_) return;
  if (!call->recomputed) {
    module(m).used = true;
    if (!c10::GradMode::is_enabled()) ++module(m).perhaps;
  }
  if (tensors.empty() || module(m).units.empty() || !c10::GradMode::is_enabled()) return;
  call->watches_inputs = true;
  WatchBackward(tensors, [weak = weak_from_this(), call] {
    if (const auto self = weak.lock()) self->EndBackwardOf(*call);
  });
}

void ModuleAdapter::Impl::PostForward(int m, TensorList& tensors) {
  // A hook that failed before ours leaves a PostForward without its PreForward.
  if (calls_.empty() || calls_.back()->module != m) return;
  const std::shared_ptr<Call> call = std::move(calls_.back());
  calls_.pop_back();
  if (!open_) return;
  ReleaseAll(*call, false);
  if (!training_) {
    if (calls_.empty()) End();
    return;
  }
  if (tensors.empty() || !c10::GradMode::is_enabled()) return;
  if (!call->recomputed) ++module(m).awaited;
  WatchBackward(tensors, [weak = weak_from_this(), call, to_come = backward_to_come_] {
    if (const auto self = weak.lock()) self->BeginBackwardOf(*call);
  });
}

// --- units

void ModuleAdapter::Impl::Acquire(int u) {
  Unit& acquired = unit(u);
  if (acquired.holders++ > 0) return;
  std::byte* flat = engine_.Acquire(u);
  for (size_t p = 0; p < acquired.parameters.size(); ++p) {
    acquired.parameters[p].Point(flat + acquired.offsets[p]);
  }
}

void ModuleAdapter::Impl::Release(int u) {
  Unit& released = unit(u);
  if (released.holders == 0 || --released.holders > 0) return;
  for (BorrowedParameter& parameter : released.parameters) parameter.Release();
  engine_.Release(u);
}

void ModuleAdapter::Impl::AcquireAll(const Call& call, bool backward) {
  for (const int u : module(call.module).units) {
    if (!backward || unit(u).weights_in_backward) Acquire(u);
  }
}

void ModuleAdapter::Impl::ReleaseAll(const Call& call, bool backward) {
  for (const int u : module(call.module).units) {
    if (!backward || unit(u).weights_in_backward) Release(u);
  }
}

void ModuleAdapter::Impl::BeginBackwardOf(Call& call) {
  CheckPassOf(call);
  EnterBackward();
  if (call.holds) return;
  call.holds = true;
  AcquireAll(call, true);
}

// The module's nodes were made after the one at its inputs and run before it, so its gradients are
// complete now, unless other forwards of it are still to come back.
void ModuleAdapter::Impl::EndBackwardOf(Call& call) {
  Module& ended = module(call.module);
  CheckPassOf(call);
  if (std::exchange(call.holds, false)) {
    if (call.recomputed) {
      --ended.perhaps;
    } else {
      --ended.awaited;
    }
    if (ended.awaited == 0 && ended.perhaps <= 0 && !ended.reduced) Reduce(ended);
    ReleaseAll(call, true);
  }
}

void ModuleAdapter::Impl::Reduce(Module& module) {
  module.reduced = true;
  for (const int u : module.units) {
    if (unit(u).trainable) ReduceUnit(u);
  }
}

void ModuleAdapter::Impl::ReduceUnit(int u) {
  Unit& reduced = unit(u);
  reduced.gradients.Point(engine_.GradientBuffer(u));
  reduced.missing.clear();
  const c10::AutoGradMode no_grad(false);
  for (size_t p = 0; p < reduced.parameters.size(); ++p) {
    Tensor& gradient = reduced.parameters[p].tensor().mutable_grad();
    if (gradient.defined()) {
      reduced.gradients.tensor(p).copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
      gradient.reset();
    } else {
      reduced.gradients.tensor(p).zero_();
      reduced.missing.push_back(static_cast<int>(p));
    }
  }
  reduced.gradients.Point(nullptr);
  engine_.ReduceGradients(u, reduced.missing);
}

ModuleAdapter::ModuleAdapter(zero::Engine& engine,
                             const std::vector<std::vector<Tensor>>& parameters,
                             UnitsOfModule units_of_module)
    : impl_(std::make_shared<Impl>(engine, parameters, std::move(units_of_module))) {}
ModuleAdapter::~ModuleAdapter() = default;
void ModuleAdapter::PreForward(int module, TensorList& tensors) {
  impl_->PreForward(module, tensors);
}
void ModuleAdapter::PostForward(int module, TensorList& tensors) {
  impl_->PostForward(module, tensors);
}
zero::StepResult ModuleAdapter::Step(const zero::StepInput& input) { return impl_->Step(input); }
void ModuleAdapter::RefreshWeights(const zero::OptimizerProgress& progress) {
  impl_->RefreshWeights(&progress);
}
void ModuleAdapter::RefreshWeights() { impl_->RefreshWeights(nullptr); }
bool ModuleAdapter::Abandon() { return impl_->Abandon(); }
void ModuleAdapter::Settle() { impl_->Settle(); }
void ModuleAdapter::ExpectNoBackward() { impl_->ExpectNoBackward(); }
void ModuleAdapter::ServeUntilAllDone() { impl_->ServeUntilAllDone(); }
void ModuleAdapter::EndStepsAfter(int micro_batches) { impl_->EndStepsAfter(micro_batches); }
bool ModuleAdapter::ends_step() const { return impl_->ends_step(); }
bool ModuleAdapter::step_is_due() const { return impl_->step_is_due(); }
int ModuleAdapter::micro_batches_done() const { return impl_->micro_batches_done(); }
void ModuleAdapter::Lend(int unit, int parameter, const Tensor& values) {
  impl_->Lend(unit, parameter, values);
}
void ModuleAdapter::TakeBack(int unit, int parameter) { impl_->TakeBack(unit, parameter); }
bool ModuleAdapter::in_pass() const { return impl_->in_pass(); }

}  // namespace thinwire::adapter
