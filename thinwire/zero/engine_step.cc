// The optimizer step: agree on the norm, update the owned shards, push the new weights.
#include <bit>
#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/kernels/adamw.h"
#include "thinwire/kernels/sum.h"
#include "thinwire/optim/clip.h"
#include "thinwire/zero/engine_impl.h"

namespace thinwire::zero {

double Engine::Impl::SumOfSquares() const {
  double sum = 0;
  for (const UnitMemory& unit : memory_.units) {
    sum += kernels::SumOfSquares(context_, unit.gradient.matrix.As<float>());
    sum += kernels::SumOfSquares(context_, unit.gradient.vector.As<float>());
  }
  return sum;
}

void Engine::Impl::UpdateUnit(size_t unit, float lr, float grad_scale) {
  const AdamWOptions& adamw = plan_.options.adamw;
  kernels::AdamWStep update{.lr = lr,
                            .beta1 = adamw.beta1,
                            .beta2 = adamw.beta2,
                            .eps = adamw.eps,
                            .weight_decay = adamw.weight_decay,
                            .grad_scale = grad_scale,
                            .step = step_};
  const UnitMemory& held = memory_.units[unit];
  kernels::AdamW(context_, update, held.gradient.matrix.As<float>(), held.master.matrix.As<float>(),
                 held.m.matrix.As<float>(), held.v.matrix.As<float>());
  update.weight_decay = 0;
  kernels::AdamW(context_, update, held.gradient.vector.As<float>(), held.master.vector.As<float>(),
                 held.m.vector.As<float>(), held.v.vector.As<float>());
}

void Engine::Impl::BeginPushes(OperationList& pushes) {
  if (plan_.recipe.kept == Kept::kNothing) return;
  ++epoch_;
  monitor_.Update([&] {
    for (UnitOperation& operation : pushes.operations) {
      Rearm(plan_, operation, step_, epoch_);
      board_.pushes_left[static_cast<size_t>(operation.unit)] = operation.slow_left;
    }
    Enqueue(pushes);
  });
}

void Engine::Impl::PushUnit(size_t unit) {
  if (plan_.recipe.kept == Kept::kNothing) return;
  monitor_.Update([&] { push_of_unit_[unit]->input = true; });
}

void Engine::Impl::RefreshWeights(const OptimizerProgress& progress) {
  Guard([&] {
    THINWIRE_CHECK(!in_pass_, "RefreshWeights inside a pass");
    step_ = progress.steps;
    scaler_.Restore(progress.loss_scale);
    micro_batches_done_ = 0;
    comm::Record record;
    record.SetIntent(Mix64(static_cast<uint64_t>(step_) ^
                           Mix64(std::bit_cast<uint64_t>(scaler_.scale()) ^
                                 static_cast<uint64_t>(progress.loss_scale.good_steps))),
                     "weights of step %lld at a loss scale of %g", static_cast<long long>(step_),
                     scaler_.scale());
    agreement_.Exchange(record);
    monitor_.Wait([&] { return slow_lane_->IdleLocked(); });
    BeginPushes(pushes_);
    BeginPushes(frozen_pushes_);
    for (size_t u = 0; u < plan_.units.size(); ++u) PushUnit(u);
  });
}

StepResult Engine::Impl::Step(const StepInput& input) {
  return Guard([&] {
    THINWIRE_CHECK(!in_pass_, "Step inside a pass");
    if (micro_batches_done_ != plan_.options.micro_batches) {
      throw UsageError(StrCat("a step after ", micro_batches_done_, " training passes where ",
                              "training.micro_batches is ", plan_.options.micro_batches));
    }
    micro_batches_done_ = 0;
    monitor_.Wait([&] { return slow_lane_->IdleLocked(); });
    comm::Record record;
    record.SetIntent(Mix64(static_cast<uint64_t>(step_) ^ std::bit_cast<uint32_t>(input.lr)),
                     "optimizer step %lld at lr %g", static_cast<long long>(step_ + 1),
                     static_cast<double>(input.lr));
    record.values = {SumOfSquares(), input.loss};
    record.flags = input.stop ? 1 : 0;
    const auto records = agreement_.Exchange(record);

    StepResult result;
    const double loss_scale = scaler_.scale();
    result.grad_norm = std::sqrt(comm::SumOf(records, 0)) / loss_scale;
    result.loss = comm::SumOf(records, 1) / plan_.topology.world();
    for (const comm::Record& each : records) result.stop = result.stop || each.flags != 0;
    result.applied = std::isfinite(result.grad_norm);
    if (result.applied) {
      ++step_;
      const double clip = optim::ClipCoefficient(result.grad_norm, plan_.options.max_grad_norm);
      const float scale = static_cast<float>(clip / loss_scale);
      BeginPushes(pushes_);
      for (size_t u = 0; u < plan_.units.size(); ++u) {
        if (!plan_.units[u].spec.trainable) continue;
        UpdateUnit(u, input.lr, scale);
        PushUnit(u);
      }
    }
    scaler_.Update(result.applied);
    result.step = step_;
    return result;
  });
}

double Engine::Impl::MeanOverRanks(double value) {
  return Guard([&] {
    comm::Record record;
    record.SetIntent(0, "a mean over ranks");
    record.values[0] = value;
    return comm::SumOf(agreement_.Exchange(record), 0) / plan_.topology.world();
  });
}

}  // namespace thinwire::zero
