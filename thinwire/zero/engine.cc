#include "thinwire/zero/engine.h"

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/zero/engine_impl.h"

namespace thinwire::zero {
namespace {

constexpr uint32_t kFastTags = uint32_t{1} << 29;
constexpr uint32_t kSlowTags = uint32_t{1} << 30;

// Everything on which the layout of messages depends.
uint64_t PlanHash(const Plan& plan) {
  uint64_t hash = HashBytes(plan.recipe.name);
  const auto mix = [&](uint64_t value) { hash = Mix64(hash ^ value); };
  mix(static_cast<uint64_t>(plan.options.compute));
  mix(static_cast<uint64_t>(plan.options.wire));
  mix(static_cast<uint64_t>(plan.options.micro_batches));
  mix(static_cast<uint64_t>(plan.options.chunk_bytes));
  mix(static_cast<uint64_t>(plan.unit_buffers));
  mix(static_cast<uint64_t>(plan.topology.hosts()));
  for (const UnitLayout& unit : plan.units) {
    for (const ParameterSpec& parameter : unit.spec.parameters) {
      hash = HashBytes(parameter.name, hash);
      for (const int64_t extent : parameter.shape) mix(static_cast<uint64_t>(extent));
    }
  }
  return hash;
}

comm::LaneOptions LaneFor(const Plan& plan, bool slow) {
  return {.slot_bytes = plan.message_bytes[slow ? 1 : 0],
          .members = slow ? plan.topology.hosts() : plan.topology.ranks_per_host(),
          .window = slow ? kSlowWindow : kFastWindow,
          .tag_base = slow ? kSlowTags : kFastTags};
}

}  // namespace

Engine::Impl::Impl(Plan plan, Links links, ExecContext context)
    : plan_(std::move(plan)),
      links_(links),
      context_(context),
      memory_(plan_),
      board_{.plan = plan_, .memory = memory_, .exchange = comm::Exchange(links.bulk, context)},
      agreement_(links.control, context),
      buffer_held_(static_cast<size_t>(plan_.unit_buffers), -1) {
  THINWIRE_CHECK(links.bulk.size() == plan_.topology.world(), links.bulk.size(), " ranks");
  board_.pushes_left.assign(plan_.units.size(), 0);
  const auto failed = [this](std::exception_ptr error) { Fail(error); };
  fast_lane_ = std::make_unique<comm::Lane>(monitor_, LaneFor(plan_, false), failed);
  slow_lane_ = std::make_unique<comm::Lane>(monitor_, LaneFor(plan_, true), failed);
  if (plan_.topology.world() > 1) {
    watchdog_ = std::make_unique<comm::Watchdog>(
        links.board, plan_.topology.rank(), plan_.topology.world(), plan_.options.deadline,
        [this](const std::string& message) { FailWith(message); });
  }
  if (plan_.recipe.kept != Kept::kNothing) {
    for (size_t u = 0; u < plan_.units.size(); ++u) {
      pushes_.Add(board_, {.kind = UnitOperation::Kind::kPush, .unit = static_cast<int>(u)}, 0);
    }
    pushes_.Link();
  }
  AgreeOnPlan();
}

Engine::Impl::~Impl() {
  try {
    monitor_.Wait([&] { return slow_lane_->IdleLocked() && fast_lane_->IdleLocked(); });
  } catch (...) {
    // The failure was thrown to the caller already; lanes have stopped or stop with the abort.
  }
  watchdog_.reset();
  slow_lane_.reset();
  fast_lane_.reset();
}

void Engine::Impl::AgreeOnPlan() {
  Guard([&] {
    comm::Record record;
    record.SetIntent(PlanHash(plan_), "recipe %s, %d hosts x %d ranks, %lld parameters",
                     plan_.recipe.name.c_str(), plan_.topology.hosts(),
                     plan_.topology.ranks_per_host(), static_cast<long long>(plan_.parameters));
    agreement_.Exchange(record);
  });
}

void Engine::Impl::Fail(std::exception_ptr error) {
  std::string message = "an unknown error";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    message = known.what();
  } catch (...) {
  }
  if (monitor_.failed()) return;
  try {
    // What another rank saw first is nearer to the cause than what this one sees of it.
    const std::string first = links_.board.FirstFailure();
    if (first.empty()) {
      links_.board.DeclareFailure(StrCat("rank ", plan_.topology.rank(), ": ", message));
    } else if (message.find(first) == std::string::npos) {
      error = std::make_exception_ptr(PeerError(StrCat(first, " (seen here as: ", message, ")")));
      message = first;
    }
  } catch (const std::exception&) {
    // The board is down with the rest; the error itself is what counts.
  }
  monitor_.Fail(error);
  links_.bulk.Abort(message);
  links_.control.Abort(message);
}

void Engine::Impl::FailWith(const std::string& message) {
  Fail(std::make_exception_ptr(PeerError(message)));
}

std::vector<OwnedStretch> Engine::Impl::Owned() {
  std::vector<OwnedStretch> stretches;
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    const UnitLayout& unit = plan_.units[u];
    UnitMemory& held = memory_.units[u];
    for (size_t p = 0; p < unit.places.size(); ++p) {
      const ParameterPlace& place = unit.places[p];
      const auto array = [&](comm::Image& image) {
        return place.matrix ? image.matrix : image.vector;
      };
      const int64_t first = place.matrix ? held.master.matrix_begin : held.master.vector_begin;
      const int64_t offset = place.offset - (place.matrix ? 0 : unit.matrix.size());
      const int64_t begin = std::max(offset, first);
      const int64_t end = std::min(offset + place.numel, first + array(held.master).size);
      if (begin >= end) continue;
      const auto part = [&](comm::Image& image) {
        return array(image).Sub(begin - first, end - begin).As<float>();
      };
      stretches.push_back({static_cast<int>(u), static_cast<int>(p), begin - offset,
                           part(held.master), part(held.m), part(held.v)});
    }
  }
  return stretches;
}

Traffic Engine::Impl::traffic() const {
  Traffic traffic;
  for (size_t h = 0; h < kHops; ++h) {
    traffic.bytes[h] = board_.traffic[h].bytes.load(std::memory_order_relaxed);
    traffic.messages[h] = board_.traffic[h].messages.load(std::memory_order_relaxed);
  }
  traffic.control_bytes = agreement_.sent_bytes();
  return traffic;
}

Engine::Engine(Plan plan, Links links, ExecContext context)
    : impl_(std::make_unique<Impl>(std::move(plan), links, context)) {}
Engine::~Engine() = default;
const Plan& Engine::plan() const { return impl_->plan(); }
std::vector<OwnedStretch> Engine::Owned() { return impl_->Owned(); }
void Engine::RefreshWeights(int64_t step) { impl_->RefreshWeights(step); }
void Engine::BeginPass(PassKind kind, bool last) { impl_->BeginPass(kind, last); }
std::byte* Engine::Acquire(int unit) { return impl_->Acquire(unit); }
void Engine::Release(int unit) { impl_->Release(unit); }
std::byte* Engine::GradientBuffer(int unit) { return impl_->GradientBuffer(unit); }
void Engine::ReduceGradients(int unit) { impl_->ReduceGradients(unit); }
void Engine::EndPass() { impl_->EndPass(); }
StepResult Engine::Step(const StepInput& input) { return impl_->Step(input); }
double Engine::MeanOverRanks(double value) { return impl_->MeanOverRanks(value); }
Traffic Engine::traffic() const { return impl_->traffic(); }

}  // namespace thinwire::zero
