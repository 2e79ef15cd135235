// New weights on their way from their owners, as values or as differences.
#include <algorithm>
#include <array>
#include <iomanip>

#include "thinwire/base/error.h"
#include "thinwire/kernels/convert.h"
#include "thinwire/kernels/difference.h"
#include "thinwire/zero/engine_impl.h"

namespace thinwire::zero {
namespace {

// Seeds of fingerprints: values and differences of a unit are not the same message.
constexpr uint64_t kAsRecipe = 0, kFullValues = 1;

// The squares of what rounding `values` to `dtype` changes.
double SquaredRounding(const ExecContext& context, ConstArray values, DType dtype) {
  std::array<std::byte, 4096> buffer;
  const int64_t tile = std::ssize(buffer) / SizeOf(dtype);
  double sum = 0;
  for (int64_t begin = 0; begin < values.size; begin += tile) {
    const int64_t size = std::min(tile, values.size - begin);
    const Array rounded(buffer.data(), dtype, size);
    kernels::Convert(context, values.Sub(begin, size), rounded);
    sum += kernels::SquaredDistance(context, values.Sub(begin, size), rounded);
  }
  return sum;
}

// The type that full values are rounded to: below stage 3 the fast gather writes the weights of its
// own rank, too, in the type that it sends.
DType RoundedTo(const Plan& plan, size_t unit) {
  const DType compute = plan.units[unit].compute;
  if (!plan.resident()) return compute;
  const DType sent = RawType(*plan.routes[unit].recipe.fast_gather).value_or(compute);
  return sent == DType::kF32 ? compute : sent;
}

// Says of each job which comes behind it in its lane, across units.
void ChainTo(HopJob*& before, std::deque<HopJob>& jobs) {
  if (jobs.empty()) return;
  if (before != nullptr) before->set_next(jobs.front().fingerprint());
  before = &jobs.back();
}

}  // namespace

void Engine::Impl::MakePushes() {
  if (!plan_.pushes()) return;
  lag_sums_.resize(WeightLag::kSums * plan_.units.size());
  if (plan_.recipe.sends_differences()) agreement_.Reserve(lag_sums_.size());
  board_.difference_squares.resize(plan_.units.size());
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    UnitPush& push = pushes_.emplace_back();
    UnitOperation operation{.kind = UnitOperation::Kind::kPush,
                            .unit = static_cast<int>(u),
                            .buffer = static_cast<int>(u),
                            .staging = static_cast<int>(u) % kStagingBuffers};
    push.as_recipe.Add(board_, operation, kAsRecipe);
    push.as_recipe.Link();
    push.current = &push.as_recipe;
    if (!plan_.recipe.sends_differences()) continue;
    operation.full = true;
    push.full_values.Add(board_, operation, kFullValues);
    push.full_values.Link();
  }
}

bool Engine::Impl::SendsFullValues(size_t unit) const {
  return plan_.recipe.sends_differences() && lag_.IsFull(unit, step_);
}

// Of frozen units, too, or only of those that a step changes; as full values or as is due.
void Engine::Impl::BeginPushes(bool frozen, bool full) {
  if (!plan_.pushes()) return;
  ++epoch_;
  const bool differences = plan_.recipe.sends_differences();
  HopJob* last_slow = nullptr;
  HopJob* last_fast = nullptr;
  monitor_.Update([&] {
    for (size_t u = 0; u < pushes_.size(); ++u) {
      if (!frozen && !plan_.units[u].spec.trainable) continue;
      UnitPush& push = pushes_[u];
      const bool values = differences && (full || SendsFullValues(u));
      push.current = values ? &push.full_values : &push.as_recipe;
      UnitOperation& operation = push.operation();
      Rearm(plan_, operation, step_, epoch_);
      operation.measured = !values && differences && lag_.IsMeasured(u, step_);
      board_.pushes_left[u] = operation.slow_left + operation.fast_left;
      board_.difference_squares[u] = 0;
      ChainTo(last_slow, push.current->slow_jobs);
      ChainTo(last_fast, push.current->fast_jobs);
    }
    for (HopJob* last : {last_slow, last_fast}) {
      if (last != nullptr) last->set_next(0);
    }
    for (size_t u = 0; u < pushes_.size(); ++u) {
      if (frozen || plan_.units[u].spec.trainable) Enqueue(*pushes_[u].current);
    }
  });
}

void Engine::Impl::PushUnit(size_t unit) {
  if (!plan_.pushes()) return;
  monitor_.Update([&] { pushes_[unit].operation().input = true; });
}

void Engine::Impl::PushAll() {
  monitor_.Wait([&] { return slow_lane_->IdleLocked() && fast_lane_->IdleLocked(); });
  lag_.Forget(step_);
  BeginPushes(true, true);
  for (size_t u = 0; u < plan_.units.size(); ++u) PushUnit(u);
}

// Before the step that follows a measured one, when what that one sent has arrived and the masters
// are still what they were. Says which units fall back.
std::vector<std::string> Engine::Impl::JudgeLag() {
  const int64_t measured = step_ - 1;
  if (!plan_.recipe.sends_differences() || !lag_.IsMeasured(measured)) return {};
  std::ranges::fill(lag_sums_, 0.0);
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    if (board_.difference_squares[u] == 0) continue;
    const UnitLayout& unit = plan_.units[u];
    const UnitMemory& held = memory_.units[u];
    const comm::Range shard = unit.matrix.Shard(plan_.topology.local(), plan_.topology.host());
    const comm::Image weights =
        plan_.keeps_slice() ? held.kept : FlatImage(unit, memory_.unit_buffers[u].data());
    const ConstArray master = held.master.matrix;
    double* const sums = lag_sums_.data() + WeightLag::kSums * u;
    sums[0] = board_.difference_squares[u];
    sums[1] = kernels::SquaredDistance(context_, master, weights.Matrix(shard));
    sums[2] = SquaredRounding(context_, master, RoundedTo(plan_, u));
  }
  agreement_.Sum(lag_sums_);
  std::vector<std::string> notes;
  for (const size_t u : lag_.Judge(measured, lag_sums_)) {
    notes.push_back(
        StrCat("step ", measured, ": the differences of ", plan_.units[u].spec.name, " in ",
               plan_.routes[u].recipe.slow_gather->name(), " leave its weights ",
               std::setprecision(3), lag_.updates()[u], " updates behind (", WeightLag::kMost,
               " at most): it sends full values for ", plan_.options.full_weights_every, " steps"));
  }
  return notes;
}

}  // namespace thinwire::zero
