// The optimizer step: agree on the norm, update the owned shards, push the new weights.
#include <algorithm>
#include <bit>
#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/kernels/sum.h"
#include "thinwire/optim/clip.h"
#include "thinwire/zero/engine_impl.h"

namespace thinwire::zero {
namespace {

optim::Stretch StretchOf(const Plan& plan, const UnitMemory& held, const OwnedPart& part,
                         int64_t parameter, int group) {
  optim::Stretch stretch{.group = group,
                         .parameter = parameter,
                         .offset = part.offset,
                         .gradient = part.Of(plan, held.gradient),
                         .master = part.Of(plan, held.master)};
  for (size_t s = 0; s < held.states.size(); ++s) {
    stretch.states[s] = part.Of(plan, held.states[s]);
  }
  return stretch;
}

// `next` follows `stretch` in memory.
void Join(optim::Stretch& stretch, const optim::Stretch& next) {
  const auto join = [](std::span<float>& span, std::span<float> more) {
    THINWIRE_CHECK(span.data() + span.size() == more.data());
    span = {span.data(), span.size() + more.size()};
  };
  join(stretch.gradient, next.gradient);
  join(stretch.master, next.master);
  for (size_t s = 0; s < stretch.states.size(); ++s) join(stretch.states[s], next.states[s]);
}

}  // namespace

double Engine::Impl::SumOfSquares() const {
  double sum = 0;
  for (const UnitMemory& unit : memory_.units) {
    sum += kernels::SumOfSquares(context_, unit.gradient.matrix.As<float>());
    sum += kernels::SumOfSquares(context_, unit.gradient.vector.As<float>());
  }
  return sum;
}

// Lists what a step updates; again only when other parameters are unused: memory stays where it is.
void Engine::Impl::PrepareUpdate() {
  const bool whole = plan_.options.optimizer->whole_parameters();
  if (whole) room_.resize(2 * first_parameter_.back());
  stretches_.clear();
  std::vector<OwnedPart> parts = OwnedParts(plan_);
  const auto place_of = [&](const OwnedPart& part) {
    return plan_.units[static_cast<size_t>(part.unit)].places[static_cast<size_t>(part.parameter)];
  };
  // In the order of memory: matrices before vectors.
  std::ranges::stable_sort(parts, {}, [&](const OwnedPart& part) {
    return std::pair(part.unit, !place_of(part).matrix);
  });
  const OwnedPart* before = nullptr;
  first_stretch_.assign(plan_.units.size() + 1, 0);
  for (const OwnedPart& part : parts) {
    const size_t u = static_cast<size_t>(part.unit);
    if (!plan_.units[u].spec.trainable) continue;
    const size_t parameter = first_parameter_[u] + static_cast<size_t>(part.parameter);
    if (left_out_[parameter] && !whole) {
      before = nullptr;  // what follows it does not join what precedes it
      continue;
    }
    const ParameterPlace place = place_of(part);
    optim::Stretch stretch =
        StretchOf(plan_, memory_.units[u], part, static_cast<int64_t>(parameter), place.group);
    if (left_out_[parameter]) stretch.gradient = {};
    if (!whole && before != nullptr && before->unit == part.unit &&
        place_of(*before).matrix == place.matrix && place_of(*before).group == place.group) {
      Join(stretches_.back(), stretch);
    } else {
      stretches_.push_back(stretch);
    }
    before = &part;
    first_stretch_[u + 1] = stretches_.size();
  }
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    first_stretch_[u + 1] = std::max(first_stretch_[u], first_stretch_[u + 1]);
  }
}

void Engine::Impl::CheckMicroBatch(bool last) const {
  const int micro_batches = plan_.options.micro_batches;
  if (StepIsDue()) {
    throw UsageError(StrCat(
        "rank ", plan_.topology.rank(),
        ": a training pass after the one that was called the last of its step: the optimizer's "
        "step comes first. For more passes in a step set training.micro_batches "
        "(gradient_accumulation_steps in a DeepSpeed config); a pass without backward needs "
        "torch.no_grad()"));
  }
  if (micro_batches == 0 || last == (micro_batches_done_ + 1 == micro_batches)) return;
  throw UsageError(StrCat("training pass ", micro_batches_done_ + 1, " since the last step is ",
                          last ? "" : "not ",
                          "called the last one where training.micro_batches is ", micro_batches));
}

bool Engine::Impl::StepIsDue() const {
  const int micro_batches = plan_.options.micro_batches;
  return micro_batches == 0 ? last_done_ : micro_batches_done_ == micro_batches;
}

void Engine::Impl::SetGroups(const StepInput& input) {
  if (input.groups.empty()) {
    std::ranges::copy(plan_.options.groups, groups_.begin());
    for (optim::GroupSettings& group : groups_) group.lr = input.lr;
  } else if (input.groups.size() != groups_.size()) {
    throw UsageError(StrCat("a step with settings of ", input.groups.size(),
                            " parameter groups where the engine has ", groups_.size()));
  } else {
    std::ranges::copy(input.groups, groups_.begin());
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    plan_.options.optimizer->Check(groups_[g], static_cast<int>(g));
  }
}

// A unit that no pass of this step reduced still has the gradient of an earlier step, or what the
// optimizer left in its place.
void Engine::Impl::ZeroMissingGradients() {
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    if (!plan_.units[u].spec.trainable || board_.gradient_is_new[u]) continue;
    std::ranges::fill(memory_.units[u].gradient.matrix.As<float>(), 0.0f);
    std::ranges::fill(memory_.units[u].gradient.vector.As<float>(), 0.0f);
  }
}

// Of the parameters that this rank had no gradient for, as a double that keeps all of it; 0: none.
double Engine::Impl::HashOfUnused() const {
  uint64_t hash = 0;
  for (size_t p = 0; p < gradients_.size(); ++p) {
    if (gradients_[p] == 0) hash = Mix64(hash ^ (p + 1));
  }
  return static_cast<double>(hash >> 11);
}

// Where some rank had gradients for all, nothing is unused; where all ranks lack those of the same
// parameters, these are. Otherwise they ask one another.
void Engine::Impl::LeaveOutUnused(std::span<const comm::Record> records) {
  const auto is = [&](double hash) {
    return [hash](const comm::Record& each) { return each.values[2] == hash; };
  };
  if (std::ranges::any_of(records, is(0))) {
    std::ranges::fill(gradients_, 1.0);
  } else if (!std::ranges::all_of(records, is(records[0].values[2]))) {
    agreement_.Sum(gradients_);
  }
  bool changed = false;
  for (size_t p = 0; p < gradients_.size(); ++p) {
    const bool unused = gradients_[p] == 0;
    changed = changed || left_out_[p] != unused;
    left_out_[p] = unused;
  }
  if (changed) PrepareUpdate();
}

void Engine::Impl::Update(float grad_scale) {
  const optim::Optimizer& optimizer = *plan_.options.optimizer;
  const optim::StepContext step{
      .exec = context_,
      .step = step_,
      .grad_scale = grad_scale,
      .groups = groups_,
      .room = room_,
      .sum_over_ranks = [this](std::span<double> values) { agreement_.Sum(values); }};
  if (optimizer.whole_parameters()) optimizer.Apply(step, stretches_);
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    if (!plan_.units[u].spec.trainable) continue;
    if (!optimizer.whole_parameters()) {
      const size_t first = first_stretch_[u];
      optimizer.Apply(step, std::span(stretches_).subspan(first, first_stretch_[u + 1] - first));
    }
    PushUnit(u);
  }
}

void Engine::Impl::RefreshWeights(const OptimizerProgress& progress) {
  Guard([&] {
    THINWIRE_CHECK(!in_pass_, "RefreshWeights inside a pass");
    step_ = progress.steps;
    scaler_.Restore(progress.loss_scale);
    ForgetMicroBatches();
    comm::Record record;
    const optim::LossScale& scale = scaler_.state();
    record.SetIntent(Mix64(static_cast<uint64_t>(step_) ^ optim::Fingerprint(scale)),
                     "weights of step %lld, loss scale %g after %lld good and %lld bad steps",
                     static_cast<long long>(step_), scale.scale,
                     static_cast<long long>(scale.good_steps),
                     static_cast<long long>(scale.bad_steps));
    agreement_.Exchange(record);
    PushAll();
    board_.gradient_is_new.assign(plan_.units.size(), false);
  });
}

StepResult Engine::Impl::Step(const StepInput& input) {
  return Guard([&] {
    THINWIRE_CHECK(!in_pass_, "Step inside a pass");
    if (!StepIsDue()) {
      throw UsageError(plan_.options.micro_batches == 0
                           ? StrCat("a step after ", micro_batches_done_,
                                    " training passes none of which was called the last one")
                           : StrCat("a step after ", micro_batches_done_, " training passes where ",
                                    "training.micro_batches is ", plan_.options.micro_batches));
    }
    SetGroups(input);
    ClearRecordedOperations();
    Now(Doing::kNorm);
    ZeroMissingGradients();
    comm::Record record;
    record.SetIntent(Mix64(static_cast<uint64_t>(step_) ^ optim::Fingerprint(groups_)) ^
                         optim::Fingerprint(scaler_.state()),
                     "optimizer step %lld at lr %g, loss scale %g",
                     static_cast<long long>(step_ + 1),
                     static_cast<double>(groups_.empty() ? 0.0f : groups_[0].lr), scaler_.scale());
    record.values = {SumOfSquares(), input.loss, HashOfUnused()};
    record.flags = input.stop ? 1 : 0;
    Now(Doing::kAwaitRanks);
    const auto records = agreement_.Exchange(record, comm::Patience::kBounded);
    Now(Doing::kOptimizer);

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
      LeaveOutUnused(records);
      result.notes = JudgeLag();
      BeginPushes(false, false);
      Update(scale);
    }
    ForgetMicroBatches();
    board_.gradient_is_new.assign(plan_.units.size(), false);
    scaler_.Update(result.applied);
    if (!result.applied || scaler_.scale() != loss_scale) ForgetResiduals();
    result.step = step_;
    return result;
  });
}

double Engine::Impl::MeanOverRanks(double value) {
  CheckBetweenPasses("a mean over ranks");
  return Guard([&] {
    comm::Record record;
    record.SetIntent(0, "a mean over ranks");
    record.values[0] = value;
    return comm::SumOf(agreement_.Exchange(record), 0) / plan_.topology.world();
  });
}

void Engine::Impl::Meet(std::string_view call) {
  CheckBetweenPasses(call);
  Guard([&] {
    comm::Record record;
    record.SetIntent(HashBytes(call), "%.*s", static_cast<int>(call.size()), call.data());
    agreement_.Exchange(record, comm::Patience::kBounded);
  });
}

// The others may wait for what the rest of the pass sends, so no wait for them may begin. Nothing
// has happened yet: the pass can go on.
void Engine::Impl::CheckBetweenPasses(std::string_view call) const {
  if (!in_pass_) return;
  throw UsageError(StrCat("rank ", plan_.topology.rank(), ": ", call,
                          " between a forward and its backward: finish the backward, or abandon "
                          "the pass"));
}

}  // namespace thinwire::zero
