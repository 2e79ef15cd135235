// Gradients in a pass: their buffers, and the reductions that the caller or the engine starts.
#include <algorithm>
#include <cstring>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/kernels/sum.h"
#include "thinwire/zero/engine_impl.h"
#include "thinwire/zero/rotation.h"

namespace thinwire::zero {

void Engine::Impl::NumberParameters() {
  first_parameter_ = {0};
  for (const UnitLayout& unit : plan_.units) {
    first_parameter_.push_back(first_parameter_.back() + unit.places.size());
  }
  gradients_.resize(first_parameter_.back());
  left_out_.assign(first_parameter_.back(), false);
}

void Engine::Impl::ForgetMicroBatches() {
  micro_batches_done_ = 0;
  last_done_ = false;
  reduced_in_step_.assign(plan_.units.size(), false);
  accumulated_.assign(plan_.units.size(), false);
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    // Nobody asks for those of a frozen unit.
    const auto of_unit =
        std::span(gradients_)
            .subspan(first_parameter_[u], first_parameter_[u + 1] - first_parameter_[u]);
    std::ranges::fill(of_unit, plan_.units[u].spec.trainable ? 0.0 : 1.0);
  }
}

// Of gradients that are of no use: sums that hold inf or NaN, or another loss scale's; or what a
// reduction that did not count has left. What was owed before that one is then in the sum of the
// step's micro-batches, or lost with the only one.
void Engine::Impl::ForgetResidual(size_t unit) {
  std::ranges::fill(memory_.units[unit].residual, std::byte{0});
}

void Engine::Impl::ForgetResiduals() {
  for (size_t u = 0; u < memory_.units.size(); ++u) ForgetResidual(u);
}

// What is owed is part of a sum over micro-batches: the mean over another number of them would
// weight it otherwise.
void Engine::Impl::ForgetDebtsOfOtherSums() {
  const int before = std::exchange(owed_micro_batches_, board_.micro_batches);
  if (!plan_.options.average_micro_batches || before == 0) return;
  if (before != board_.micro_batches) ForgetResiduals();
}

void Engine::Impl::ReserveGradientBuffer() {
  monitor_.Wait(
      [&] { return !board_.gradient_buffer_busy[static_cast<size_t>(gradient_buffer_)]; });
}

std::byte* Engine::Impl::GradientBuffer(int unit) {
  return Guard([&] {
    THINWIRE_CHECK(in_pass_ && kind_ == PassKind::kTrain, "gradients outside a training pass");
    THINWIRE_CHECK(gradient_unit_ < 0, "units ", gradient_unit_, " and ", unit, " at once");
    CheckUnit(unit);
    if (!plan_.units[static_cast<size_t>(unit)].spec.trainable) {
      throw UsageError(StrCat("gradients of ", NameOfUnit(unit),
                              ", which is frozen: make a unit of its own of what is trained"));
    }
    // Skipped units before this one are served first: they use the same buffers.
    if (!recording()) Seek({EventKind::kReduce, unit});
    ReserveGradientBuffer();
    gradient_unit_ = unit;
    return memory_.gradient_buffers[static_cast<size_t>(gradient_buffer_)].data();
  });
}

void Engine::Impl::ReduceGradients(int unit, std::span<const int> missing) {
  Guard([&] {
    THINWIRE_CHECK(gradient_unit_ == unit, "the gradient buffer is of unit ", gradient_unit_);
    if (recording() || !Seek({EventKind::kReduce, unit})) {
      ReduceRecording(unit);
    } else {
      const int reduce = current_->program.reduce_of_event[cursor_];
      SubmitGradients(*current_->reduces[static_cast<size_t>(reduce)]);
      EventDone();
    }
    gradient_unit_ = -1;
    const size_t u = static_cast<size_t>(unit);
    reduced_[u] = Reduced::kGradients;
    for (size_t p = first_parameter_[u]; p < first_parameter_[u + 1]; ++p) {
      const int in_unit = static_cast<int>(p - first_parameter_[u]);
      if (std::ranges::find(missing, in_unit) == missing.end()) gradients_[p] = 1;
    }
    events_.push_back({EventKind::kReduce, unit});
  });
}

void Engine::Impl::SubmitGradients(UnitOperation& operation) {
  if (plan_.accumulates_units()) return SubmitAccumulator(operation, false);
  monitor_.Update([&] {
    board_.gradient_buffer_busy[static_cast<size_t>(gradient_buffer_)] = true;
    operation.buffer = gradient_buffer_;
    operation.input = true;
  });
  gradient_buffer_ = (gradient_buffer_ + 1) % kGradientBuffers;
}

// At stage 1: adds the gradients (or zeros) of this micro-batch to those before it. The last one
// starts the reduction.
void Engine::Impl::SubmitAccumulator(UnitOperation& operation, bool zeros) {
  const size_t u = static_cast<size_t>(operation.unit);
  const UnitLayout& unit = plan_.units[u];
  const comm::Image& sum = memory_.units[u].accumulator;
  const comm::Image mine =
      FlatImage(unit, memory_.gradient_buffers[static_cast<size_t>(gradient_buffer_)].data());
  const auto add = [&](const Array& from, const Array& to) {
    const ConstArray term(from.data, from.dtype, from.size);
    kernels::SumInOrder(context_, {&term, zeros ? size_t{0} : size_t{1}}, accumulated_[u],
                        to.As<float>());
  };
  // Before they are added, not when the sum is sent: that may happen twice in a step.
  if (plan_.recipe.rotation != 0 && !zeros) {
    const kernels::Rotation rotation = RotationOf(plan_.recipe, operation.unit, operation.step);
    for (const comm::ExchangeShape& chunk : plan_.routes[u].of(Hop::kFastReduce)) {
      RotatePieces(context_, rotation, unit, chunk, mine);
    }
  }
  add(mine.matrix, sum.matrix);
  add(mine.vector, sum.vector);
  accumulated_[u] = true;
  if (last_) monitor_.Update([&] { operation.input = true; });
}

// A reduction that this rank has nothing for.
void Engine::Impl::ReduceZeros(UnitOperation& operation) {
  const size_t u = static_cast<size_t>(operation.unit);
  THINWIRE_CHECK(gradient_unit_ < 0, "other calls while the gradients of ", gradient_unit_,
                 " are filled in");
  reduced_[u] = Reduced::kZeros;
  if (plan_.accumulates_units()) return SubmitAccumulator(operation, true);
  ReserveGradientBuffer();
  const int64_t bytes = plan_.units[u].flat_bytes();
  std::memset(memory_.gradient_buffers[static_cast<size_t>(gradient_buffer_)].data(), 0,
              static_cast<size_t>(bytes));
  SubmitGradients(operation);
}

// At the end of the last micro-batch: units that only earlier ones had gradients for.
void Engine::Impl::ReduceLate() {
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    if (!reduced_in_step_[u] || reduced_[u] != Reduced::kNo) continue;
    ReduceZeros(EnqueueRecorded({.kind = UnitOperation::Kind::kReduce,
                                 .unit = static_cast<int>(u),
                                 .accumulate = plan_.accumulates_slices()}));
  }
}

}  // namespace thinwire::zero
