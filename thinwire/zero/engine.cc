#include "thinwire/zero/engine.h"

#include <algorithm>
#include <bit>

#include "thinwire/base/error.h"
#include "thinwire/base/random.h"
#include "thinwire/zero/engine_impl.h"

namespace thinwire::zero {
namespace {

constexpr uint32_t kFastTags = uint32_t{1} << 29;
constexpr uint32_t kSlowTags = uint32_t{1} << 30;

// Of values that convert to double without loss, and of their order.
template <typename... Values>
uint64_t HashOf(Values... values) {
  uint64_t hash = 0;
  ((hash = Mix64(hash ^ std::bit_cast<uint64_t>(static_cast<double>(values)))), ...);
  return hash;
}

uint64_t HashOf(const comm::Topology& topology) {
  uint64_t hash = HashOf(topology.hosts(), topology.ranks_per_host());
  for (int host = 0; host < topology.hosts(); ++host) {
    for (int local = 0; local < topology.ranks_per_host(); ++local) {
      hash = Mix64(hash ^ static_cast<uint64_t>(topology.RankOf(host, local)));
    }
  }
  return hash;
}

uint64_t HashOf(const UnitLayout& unit) {
  uint64_t hash = HashBytes(unit.spec.name, unit.spec.trainable ? 1 : 0) ^ HashOf(unit.compute);
  for (const ParameterSpec& parameter : unit.spec.parameters) {
    hash = Mix64(HashBytes(parameter.name, hash) ^ parameter.shape.size());
    hash = Mix64(hash ^ static_cast<uint64_t>(parameter.group));
    for (const int64_t extent : parameter.shape) {
      hash = Mix64(hash ^ static_cast<uint64_t>(extent));
    }
  }
  return hash;
}

comm::LaneOptions LaneFor(const Plan& plan, bool slow) {
  return {.slot_bytes = plan.message_bytes[slow ? 1 : 0],
          .members = slow ? plan.topology.hosts() : plan.topology.ranks_per_host(),
          .window = slow ? kSlowWindow : kFastWindow,
          .name = slow ? "slow hops" : "fast hops",
          .tag_base = slow ? kSlowTags : kFastTags};
}

}  // namespace

Engine::Impl::Impl(Plan plan, Links links, ExecContext context)
    : plan_(std::move(plan)),
      links_(links),
      context_(context),
      memory_(plan_),
      board_{.plan = plan_,
             .memory = memory_,
             .exchange = comm::Exchange(links.bulk, context, plan_.options.checksum)},
      agreement_(links.control, context),
      lag_(plan_.units.size(), plan_.options.full_weights_every),
      buffer_held_(static_cast<size_t>(plan_.unit_buffers), -1),
      exceptions_at_start_(std::uncaught_exceptions()),
      groups_(plan_.options.groups),
      scaler_(plan_.scales_loss(), plan_.options.loss_scale) {
  THINWIRE_CHECK(links.bulk.size() == plan_.topology.world(), links.bulk.size(), " ranks");
  holds_.resize(plan_.units.size());
  data_.resize(plan_.units.size());
  detached_.resize(plan_.units.size());
  NumberParameters();
  ForgetMicroBatches();
  board_.pushes_left.assign(plan_.units.size(), 0);
  board_.gradient_is_new.assign(plan_.units.size(), false);
  const auto failed = [this](std::exception_ptr error) { Fail(error); };
  fast_lane_ = std::make_unique<comm::Lane>(monitor_, LaneFor(plan_, false), failed);
  slow_lane_ = std::make_unique<comm::Lane>(monitor_, LaneFor(plan_, true), failed);
  if (plan_.topology.world() > 1) {
    watchdog_ = std::make_unique<comm::Watchdog>(
        links.board, plan_.topology.rank(), plan_.topology.world(), plan_.options.deadline,
        [this](const std::string& message) { FailWith(message); },
        [this] { return agreement_.waiting(); });
  }
  MakePushes();
  PrepareUpdate();
  AgreeOnPlan();
}

Engine::Impl::~Impl() {
  // A rank that leaves with an error of its own must not leave the others waiting for it, nor wait
  // for what only the rest of its pass would start.
  if (in_pass_) {
    FailWith("left in the middle of a pass: the cause is in what this rank printed");
  } else if (std::uncaught_exceptions() > exceptions_at_start_) {
    FailWith("left with an error: the cause is in what this rank printed");
  }
  try {
    monitor_.Wait([&] { return slow_lane_->IdleLocked() && fast_lane_->IdleLocked(); });
  } catch (...) {
    // The failure was thrown to the caller already; lanes have stopped or stop with the abort.
  }
  if (watchdog_ && !monitor_.failed() && !handed_over_) watchdog_->SayFarewell();
  watchdog_.reset();
  slow_lane_.reset();
  fast_lane_.reset();
}

void Engine::Impl::AgreeOnPlan() {
  Guard([&] {
    const EngineOptions& options = plan_.options;
    comm::Record record;
    // Which settings and which unit differ, not only that something does.
    record.SetIntent(HashOf(plan_.topology) ^ HashOf(options.stage),
                     "stage %d, %d hosts x %d ranks, %zu units", options.stage,
                     plan_.topology.hosts(), plan_.topology.ranks_per_host(), plan_.units.size());
    agreement_.Exchange(record);
    const DType wire = options.wire.value_or(options.compute);
    record.SetIntent(HashOf(options.compute, wire, options.micro_batches,
                            options.average_micro_batches, plan_.unit_buffers, options.chunk_bytes),
                     "%s, %s on the wire, %d micro-batches, prefetch %d, chunk_bytes %lld",
                     std::string(NameOf(options.compute)).c_str(),
                     std::string(NameOf(wire)).c_str(), options.micro_batches, options.prefetch,
                     static_cast<long long>(options.chunk_bytes));
    agreement_.Exchange(record);
    // After the wire type, which raw codecs follow.
    for (const auto& [hop, choice] : HopsOf(plan_.recipe)) {
      record.SetIntent(HashBytes(choice), "a recipe with %s=%s", std::string(hop).c_str(),
                       choice.c_str());
      agreement_.Exchange(record);
    }
    record.SetIntent(HashOf(options.checksum), "messages %s a checksum",
                     options.checksum ? "with" : "without");
    agreement_.Exchange(record);
    record.SetIntent(HashOf(options.full_weights_every), "parallel.full_weights_every %lld",
                     static_cast<long long>(options.full_weights_every));
    agreement_.Exchange(record);
    AgreeOnLossScale();
    const std::string optimizer(options.optimizer->name());
    record.SetIntent(HashOf(options.max_grad_norm, options.groups.size()) ^ HashBytes(optimizer),
                     "max_grad_norm %g, %s, %zu parameter groups",
                     static_cast<double>(options.max_grad_norm), optimizer.c_str(),
                     options.groups.size());
    agreement_.Exchange(record);
    for (size_t g = 0; g < options.groups.size(); ++g) {
      const optim::GroupSettings& group = options.groups[g];
      record.SetIntent(optim::Fingerprint({&group, 1}),
                       "group %zu: lr %g weight_decay %g beta1 %g beta2 %g eps %g momentum %g", g,
                       static_cast<double>(group.lr), static_cast<double>(group.weight_decay),
                       static_cast<double>(group.beta1), static_cast<double>(group.beta2),
                       static_cast<double>(group.eps), static_cast<double>(group.momentum));
      agreement_.Exchange(record);
    }
    for (size_t u = 0; u < plan_.units.size(); ++u) {
      const UnitLayout& unit = plan_.units[u];
      const std::string_view raw = plan_.routes[u].recipe.vectors->name();
      record.SetIntent(
          HashOf(unit) ^ HashBytes(raw), "unit %s of %lld elements in %zu %sparameters, %s",
          unit.spec.name.c_str(), static_cast<long long>(unit.numel()), unit.spec.parameters.size(),
          unit.spec.trainable ? "" : "frozen ", std::string(NameOf(unit.compute)).c_str());
      agreement_.Exchange(record);
    }
  });
}

// In two records, whose words then fit.
void Engine::Impl::AgreeOnLossScale() {
  const optim::LossScaleOptions& options = plan_.options.loss_scale;
  comm::Record record;
  record.SetIntent(HashOf(options.fixed, options.initial, options.least),
                   "loss scale: fixed %g, initial %g, least %g", options.fixed, options.initial,
                   options.least);
  agreement_.Exchange(record);
  record.SetIntent(optim::Fingerprint(options), "loss scale: window %lld, hysteresis %lld%s",
                   static_cast<long long>(options.window),
                   static_cast<long long>(options.hysteresis),
                   options.each_good_step ? " from each good step" : "");
  agreement_.Exchange(record);
}

void Engine::Impl::Fail(std::exception_ptr error) {
  std::string message = "an unknown error";
  bool of_peer = false;
  try {
    std::rethrow_exception(error);
  } catch (const PeerError& known) {
    message = known.what();
    of_peer = true;
  } catch (const std::exception& known) {
    message = known.what();
  } catch (...) {
  }
  if (monitor_.failed()) return;
  if (const comm::Waiting waiting = agreement_.waiting(); of_peer && waiting.peer >= 0) {
    if (message.find(waiting.Intent()) == std::string::npos) {
      message += StrCat(" (rank ", plan_.topology.rank(), " waits in ", waiting.Intent(), ")");
      error = std::make_exception_ptr(PeerError(message));
    }
  }
  const std::string me = StrCat("rank ", plan_.topology.rank());
  const bool names_me = message.starts_with(me + " ") || message.starts_with(me + ":");
  std::string reason = names_me ? message : StrCat(me, ": ", message);
  try {
    // What another rank saw first is nearer to the cause than what this one sees of it.
    links_.board.DeclareFailure(reason);
    const std::string first = links_.board.FirstFailure();
    const auto within = [](const std::string& a, const std::string& b) {
      return b.find(a) != std::string::npos;
    };
    if (!within(message, first) && !within(first, message)) {
      // How this rank saw a peer go adds nothing; a trouble of its own does.
      error = std::make_exception_ptr(
          PeerError(of_peer ? first : StrCat(first, " (seen here as: ", message, ")")));
    }
    reason = first;
  } catch (const std::exception& board) {
    // The board went with the rank that hosts it, and names it. What this rank saw may be no more
    // than another's way out.
    if (message != board.what()) {
      error = std::make_exception_ptr(
          PeerError(StrCat(board.what(), " (seen here as: ", message, ")")));
    }
  }
  monitor_.Fail(error);
  links_.bulk.Abort(reason);
  links_.control.Abort(reason);
}

void Engine::Impl::FailWith(const std::string& message) {
  Fail(std::make_exception_ptr(PeerError(message)));
}

std::vector<OwnedStretch> Engine::Impl::Owned() {
  CheckBetweenPasses("master weights asked for");
  // Pushes still read the master weights that the caller may be about to write.
  Guard([&] { monitor_.Wait([&] { return slow_lane_->IdleLocked(); }); });
  if (StepIsDue()) ZeroMissingGradients();
  std::vector<OwnedStretch> stretches;
  for (const OwnedPart& part : OwnedParts(plan_)) {
    const UnitMemory& held = memory_.units[static_cast<size_t>(part.unit)];
    OwnedStretch& stretch = stretches.emplace_back();
    stretch.unit = part.unit;
    stretch.parameter = part.parameter;
    stretch.offset = part.offset;
    stretch.master = part.Of(plan_, held.master);
    for (size_t s = 0; s < held.states.size(); ++s) {
      stretch.states[s] = part.Of(plan_, held.states[s]);
    }
    stretch.gradient = part.Of(plan_, held.gradient);
  }
  return stretches;
}

void Debts::Forget() const {
  for (const std::span<std::byte> debt : by_unit) std::ranges::fill(debt, std::byte{0});
}

Debts Engine::Impl::Owed() {
  CheckBetweenPasses("what the slow reduce owes asked for");
  Guard([&] { monitor_.Wait([&] { return slow_lane_->IdleLocked(); }); });
  if (plan_.recipe.feedback == nullptr) return {};
  // Who sends whom which elements: the place of each rank, and the units.
  uint64_t hash = HashOf(plan_.topology);
  for (const UnitLayout& unit : plan_.units) hash = Mix64(hash ^ HashOf(unit));
  Debts debts{.layout = StrCat(plan_.topology.hosts(), " x ", plan_.topology.ranks_per_host(), ", ",
                               plan_.recipe.slow_reduce->name(), ", rotated by ",
                               plan_.recipe.rotation, ", chunks of ", plan_.options.chunk_bytes,
                               ", in ", plan_.recipe.feedback->name(), ", ", hash)};
  for (const UnitMemory& unit : memory_.units) debts.by_unit.push_back(unit.residual);
  return debts;
}

Debts Engine::Impl::OwedAfterSteps() {
  Debts debts = Owed();
  const bool gradients_wait = std::ranges::count(board_.gradient_is_new, true) > 0;
  return gradients_wait ? Debts{} : debts;
}

void Engine::Impl::HandOver() {
  CheckBetweenPasses("a hand-over to another engine");
  Guard(
      [&] { monitor_.Wait([&] { return slow_lane_->IdleLocked() && fast_lane_->IdleLocked(); }); });
  handed_over_ = true;
}

Traffic Engine::Impl::traffic() const {
  Traffic traffic;
  for (size_t h = 0; h < kHops; ++h) {
    traffic.bytes[h] = board_.traffic[h].bytes.load(std::memory_order_relaxed);
    traffic.messages[h] = board_.traffic[h].messages.load(std::memory_order_relaxed);
    traffic.exchanges[h] = board_.traffic[h].exchanges.load(std::memory_order_relaxed);
    traffic.seconds[h] =
        1e-9 * static_cast<double>(board_.traffic[h].nanoseconds.load(std::memory_order_relaxed));
  }
  traffic.control_bytes = agreement_.sent_bytes();
  return traffic;
}

std::vector<HopSpan> Engine::Impl::TakeHopSpans(bool watch) {
  std::vector<HopSpan> spans;
  monitor_.Update([&] { spans = board_.watch.Take(watch); });
  return spans;
}

Engine::Engine(Plan plan, Links links, ExecContext context)
    : impl_(std::make_unique<Impl>(std::move(plan), links, context)) {}
Engine::~Engine() = default;
const Plan& Engine::plan() const { return impl_->plan(); }
std::vector<OwnedStretch> Engine::Owned() { return impl_->Owned(); }
Debts Engine::Owed() { return impl_->Owed(); }
Debts Engine::OwedAfterSteps() { return impl_->OwedAfterSteps(); }
void Engine::RefreshWeights(int64_t steps) {
  impl_->RefreshWeights({.steps = steps, .loss_scale = impl_->initial_loss_scale()});
}
void Engine::RefreshWeights(const OptimizerProgress& progress) { impl_->RefreshWeights(progress); }
void Engine::RefreshWeights() { impl_->SendFullValues("edited weights"); }
void Engine::CatchUp() { impl_->CatchUp(); }
const WeightLag& Engine::weight_lag() const { return impl_->weight_lag(); }
OptimizerProgress Engine::progress() const { return impl_->progress(); }
double Engine::loss_scale() const { return impl_->loss_scale(); }
void Engine::BeginPass(PassKind kind, bool last) {
  impl_->Now(Doing::kAwaitRanks);
  impl_->BeginPass(kind, last);
  impl_->Now(Doing::kPass, -1, kind == PassKind::kTrain ? 1 : 0);
}
std::byte* Engine::Acquire(int unit) {
  impl_->Now(Doing::kAwaitWeights, unit);
  std::byte* const data = impl_->Acquire(unit);
  impl_->Now(Doing::kCompute, unit);
  return data;
}
void Engine::Release(int unit) {
  impl_->Release(unit);
  impl_->Now(Doing::kReleased, unit);
}
std::byte* Engine::GradientBuffer(int unit) {
  impl_->Now(Doing::kAwaitGradientBuffer, unit);
  std::byte* const data = impl_->GradientBuffer(unit);
  impl_->Now(Doing::kFillGradients, unit);
  return data;
}
void Engine::ReduceGradients(int unit, std::span<const int> missing) {
  impl_->ReduceGradients(unit, missing);
  impl_->Now(Doing::kReduced, unit);
}
void Engine::EndPass() {
  impl_->Now(Doing::kAwaitReduces);
  impl_->EndPass();
  impl_->Now(Doing::kOutside);
}
int Engine::AbandonPass() {
  impl_->Now(Doing::kAwaitRanks);
  const int micro_batches = impl_->AbandonPass();
  impl_->Now(Doing::kOutside);
  return micro_batches;
}
void Engine::ServeUntilAllDone() { impl_->ServeUntilAllDone(); }
std::vector<float> Engine::ReadParameter(int unit, int parameter) {
  return impl_->ReadParameter(unit, parameter);
}
StepResult Engine::Step(const StepInput& input) {
  impl_->Now(Doing::kAwaitReduces);
  const StepResult result = impl_->Step(input);
  impl_->Now(Doing::kStepped, -1, static_cast<int>(result.step));
  return result;
}
double Engine::MeanOverRanks(double value) { return impl_->MeanOverRanks(value); }
void Engine::Meet(std::string_view call) { impl_->Meet(call); }
void Engine::HandOver() { impl_->HandOver(); }
Traffic Engine::traffic() const { return impl_->traffic(); }
std::vector<HopSpan> Engine::TakeHopSpans(bool watch) { return impl_->TakeHopSpans(watch); }
void Engine::StartTimeline() { impl_->StartTimeline(); }
Timeline Engine::TakeTimeline() { return impl_->TakeTimeline(); }

}  // namespace thinwire::zero
