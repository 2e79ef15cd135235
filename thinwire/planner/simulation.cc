#include "thinwire/planner/simulation.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/planner/resources.h"
#include "thinwire/planner/simulated_lane.h"
#include "thinwire/zero/program.h"

namespace thinwire::planner {
namespace {

using Kind = zero::UnitOperation::Kind;
using zero::Hop;

constexpr Hop kEachHop[] = {Hop::kSlowGather, Hop::kFastGather, Hop::kFastReduce, Hop::kSlowReduce};
// The first steps fill the pipeline: pushes of the one before run into each.
constexpr int kSteps = 3;
// Micro-batches but the last are alike once the pushes of the step before are through: of more than
// these, the later half stands for all others.
constexpr int kMostPasses = 16;

struct Operations {
  std::deque<zero::UnitOperation> all;  // addresses stay
  std::vector<SimulatedJob> slow, fast;
};

// What the caller's thread does next.
struct Call {
  enum class Kind {
    kAgree,
    kBeginPass,
    kAcquire,
    kCompute,
    kRelease,
    kReduce,
    kEndPass,
    kBeginStep,
    kUpdate,
    kPush,
  };
  Kind kind;
  int unit = -1;
  int index = -1;  // of the operation that it waits for or starts
  double seconds = 0;
};

class Simulation {
 public:
  Simulation(const zero::Plan& plan, const Machine& machine, std::span<const UnitWork> work)
      : plan_(plan),
        machine_(machine),
        slow_link_(machine.slow, plan.topology.ranks_per_host(), machine.full_duplex),
        fast_link_(machine.fast, 1, true),
        slow_lane_(zero::kSlowWindow, slow_link_),
        fast_lane_(zero::kFastWindow, fast_link_),
        pushes_left_(plan.units.size()) {
    THINWIRE_CHECK(work.size() == plan.units.size(), work.size(), " units");
    MeasureExchanges();
    MakeOperations();
    WritePass(work);
    WriteStep();
  }

  StepPrediction Run() {
    for (int step = 0; step < kSteps; ++step) {
      // Only the last step counts.
      step_began_ = now_;
      result_ = {};
      RunPasses(std::max(1, plan_.options.micro_batches));
      for (const Call& call : step_script_) Execute(call);
      result_.seconds += now_ - step_began_;
    }
    return result_;
  }

 private:
  // --- what there is to do
  void MeasureExchanges() {
    costs_.resize(plan_.units.size());
    const double share = plan_.coded_bytes_per_param > 0
                             ? plan_.coded_bytes_per_param / plan_.predicted_bytes_per_param
                             : 1;
    for (size_t u = 0; u < plan_.units.size(); ++u) {
      for (const Hop hop : kEachHop) {
        for (const comm::ExchangeShape& shape : plan_.routes[u].of(hop)) {
          costs_[u][zero::Index(hop)].push_back(
              CostOf(machine_, plan_.routes[u].recipe, hop, shape, share));
        }
      }
    }
  }

  zero::UnitOperation& Add(Operations& list, const zero::UnitOperation& operation) {
    zero::UnitOperation& added = list.all.emplace_back(operation);
    for (const Hop hop : kEachHop) {
      if (!zero::Uses(plan_, operation, hop)) continue;
      const size_t u = static_cast<size_t>(operation.unit);
      for (size_t c = 0; c < plan_.routes[u].of(hop).size(); ++c) {
        (zero::IsSlow(hop) ? list.slow : list.fast)
            .push_back({&added, hop, &costs_[u][zero::Index(hop)][c],
                        plan_.routes[u].of(hop)[c].members() == 1});
      }
    }
    return added;
  }

  void MakeOperations() {
    std::vector<bool> weights_in_backward;
    for (const zero::UnitLayout& unit : plan_.units) {
      weights_in_backward.push_back(unit.spec.weights_in_backward);
    }
    program_ = zero::CompileProgram(zero::TypicalPass(weights_in_backward), plan_.unit_buffers);
    gathers_.resize(program_.gathers.size());
    reduces_.resize(program_.reduces.size());
    for (const zero::Operation& entry : program_.order) {
      const size_t i = static_cast<size_t>(entry.index);
      if (entry.gather) {
        const zero::GatherStep& gather = program_.gathers[i];
        gathers_[i] = &Add(pass_, {.kind = Kind::kGather,
                                   .unit = gather.unit,
                                   .buffer = gather.buffer,
                                   .after_event = gather.after_event});
      } else if (plan_.units[static_cast<size_t>(program_.reduces[i])].spec.trainable) {
        reduces_[i] = &Add(pass_, {.kind = Kind::kReduce,
                                   .unit = program_.reduces[i],
                                   .staging = entry.index % zero::kStagingBuffers});
      }
    }
    push_of_unit_.resize(plan_.units.size());
    for (size_t u = 0; u < plan_.units.size() && plan_.pushes(); ++u) {
      if (!plan_.units[u].spec.trainable) continue;
      const int turn = static_cast<int>(pushes_.all.size()) % zero::kStagingBuffers;
      push_of_unit_[u] =
          &Add(pushes_, {.kind = Kind::kPush, .unit = static_cast<int>(u), .staging = turn});
    }
  }

  // One micro-batch.
  void WritePass(std::span<const UnitWork> work) {
    const auto call = [&](Call::Kind kind, int unit = -1, int index = -1, double seconds = 0) {
      pass_script_.push_back({kind, unit, index, seconds});
    };
    call(Call::Kind::kAgree);
    call(Call::Kind::kBeginPass);
    std::vector<int> uses(plan_.units.size());  // forward, then backward
    for (size_t e = 0; e < program_.events.size(); ++e) {
      const auto [kind, unit] = program_.events[e];
      const size_t u = static_cast<size_t>(unit);
      if (kind == zero::EventKind::kAcquire) {
        call(Call::Kind::kAcquire, unit, program_.gather_of_event[e]);
        call(Call::Kind::kCompute, unit, -1,
             uses[u]++ == 0 ? work[u].forward_s : work[u].backward_s);
      } else if (kind == zero::EventKind::kRelease) {
        call(Call::Kind::kRelease, unit);
      } else {
        if (uses[u] == 1) call(Call::Kind::kCompute, unit, -1, work[u].backward_s);
        call(Call::Kind::kReduce, unit, program_.reduce_of_event[e]);
      }
    }
    call(Call::Kind::kEndPass);
  }

  void WriteStep() {
    const auto call = [&](Call::Kind kind, int unit = -1, double seconds = 0) {
      step_script_.push_back({kind, unit, -1, seconds});
    };
    call(Call::Kind::kBeginStep);
    const int local = plan_.topology.local(), host = plan_.topology.host();
    const auto owned = [&](size_t u) {
      const zero::UnitLayout& unit = plan_.units[u];
      return unit.spec.trainable ? static_cast<double>(unit.matrix.Shard(local, host).size() +
                                                       unit.vector.Shard(local, host).size())
                                 : 0;
    };
    double norm_s = 0;
    for (size_t u = 0; u < plan_.units.size(); ++u) norm_s += machine_.norm_s * owned(u);
    call(Call::Kind::kUpdate, -1, norm_s);
    call(Call::Kind::kAgree);
    for (size_t u = 0; u < plan_.units.size(); ++u) {
      if (!plan_.units[u].spec.trainable) continue;
      call(Call::Kind::kUpdate, static_cast<int>(u), machine_.optimizer_s * owned(u));
      if (plan_.pushes()) call(Call::Kind::kPush, static_cast<int>(u));
    }
  }

  // --- the caller
  void RunPasses(int count) {
    const int most = std::min(count, kMostPasses);
    const int half = kMostPasses / 2;
    StepPrediction before;
    for (int pass = 0; pass < most; ++pass) {
      if (pass == half - 1) before = SoFar();
      if (pass == most - 1 && count > most) Repeat(before, SoFar(), (count - most) * 1.0 / half);
      last_pass_ = pass + 1 == most;
      for (const Call& call : pass_script_) Execute(call);
    }
  }

  StepPrediction SoFar() const {
    StepPrediction result = result_;
    result.seconds += now_ - step_began_;
    return result;
  }

  // Counts what was between the two as if it came `times` more often.
  void Repeat(const StepPrediction& before, const StepPrediction& after, double times) {
    const auto add = [&](auto StepPrediction::*field) {
      result_.*field += (after.*field - before.*field) * times;
    };
    add(&StepPrediction::seconds);
    add(&StepPrediction::slow_link_s);
    add(&StepPrediction::compute_s);
    add(&StepPrediction::optimizer_s);
    add(&StepPrediction::exposed_s);
    for (size_t h = 0; h < zero::kHops; ++h) {
      result_.hop_seconds[h] += (after.hop_seconds[h] - before.hop_seconds[h]) * times;
    }
    result_.slow_bytes_per_host += std::llround(
        static_cast<double>(after.slow_bytes_per_host - before.slow_bytes_per_host) * times);
  }

  void Execute(const Call& call) {
    const size_t u = static_cast<size_t>(call.unit);
    switch (call.kind) {
      case Call::Kind::kAgree:
        if (plan_.topology.world() > 1) {
          Sleep(slow_link_.busy() ? machine_.busy_agreement_s : machine_.idle_agreement_s);
        }
        break;
      case Call::Kind::kBeginPass:
        BeginPass();
        break;
      case Call::Kind::kAcquire: {
        ++events_done_;
        const zero::UnitOperation* const awaited =
            call.index >= 0 ? gathers_[static_cast<size_t>(call.index)] : push_of_unit_[u];
        if (plan_.resident() || call.index >= 0) {
          AwaitThat([&] { return awaited == nullptr || awaited->done(); });
        }
        break;
      }
      case Call::Kind::kCompute:
        Work(call.seconds, result_.compute_s);
        break;
      case Call::Kind::kRelease:
        ++events_done_;
        break;
      case Call::Kind::kReduce:
        Reduce(reduces_[static_cast<size_t>(call.index)]);
        ++events_done_;
        break;
      case Call::Kind::kEndPass:
        AwaitThat([&] { return fast_lane_.idle(); });
        break;
      case Call::Kind::kBeginStep:
        AwaitThat([&] { return fast_lane_.idle() && slow_lane_.idle(); });
        BeginPushes();
        break;
      case Call::Kind::kUpdate:
        Work(call.seconds, result_.optimizer_s);
        break;
      case Call::Kind::kPush:
        push_of_unit_[u]->input = true;
        break;
    }
  }

  void BeginPass() {
    events_done_ = 0;
    for (zero::UnitOperation& operation : pass_.all) {
      if (operation.kind == Kind::kReduce) operation.last = last_pass_;
      zero::Rearm(plan_, operation, 0, 0);
    }
    Enqueue(pass_);
  }

  void BeginPushes() {
    for (zero::UnitOperation& operation : pushes_.all) {
      zero::Rearm(plan_, operation, 0, 0);
      pushes_left_[static_cast<size_t>(operation.unit)] = operation.slow_left + operation.fast_left;
    }
    Enqueue(pushes_);
  }

  void Enqueue(const Operations& list) {
    for (const SimulatedJob& job : list.slow) {
      if (zero::Uses(plan_, *job.operation, job.hop)) slow_lane_.Push(job);
    }
    for (const SimulatedJob& job : list.fast) {
      if (zero::Uses(plan_, *job.operation, job.hop)) fast_lane_.Push(job);
    }
  }

  void Reduce(zero::UnitOperation* operation) {
    if (operation == nullptr) return;
    if (plan_.accumulates_units() && !operation->last) return;
    AwaitThat([&] { return !gradient_busy_[gradient_buffer_]; });
    operation->buffer = static_cast<int>(gradient_buffer_);
    operation->input = true;
    if (plan_.accumulates_units()) return;
    gradient_busy_[gradient_buffer_] = true;
    gradient_buffer_ = (gradient_buffer_ + 1) % zero::kGradientBuffers;
  }

  // --- the rules of zero::HopJob
  static bool Claim(const void*& user, const zero::UnitOperation* operation) {
    if (user == nullptr) user = operation;
    return user == operation;
  }

  bool Ready(const SimulatedJob& job) {
    zero::UnitOperation& operation = *job.operation;
    const size_t staging = static_cast<size_t>(operation.staging);
    switch (operation.kind) {
      case Kind::kPush:
        if (job.hop == Hop::kFastGather) return operation.slow_left == 0;
        if (!operation.input) return false;
        return !plan_.resident() || !plan_.recipe.forwards_codes() ||
               Claim(codes_user_[staging], &operation);
      case Kind::kReduce:
        if (job.hop == Hop::kSlowReduce) return operation.fast_left == 0;
        return operation.input &&
               (plan_.accumulates_slices() || Claim(staging_user_[staging], &operation));
      case Kind::kGather:
        if (job.hop == Hop::kFastGather && operation.slow_left > 0) return false;
        return events_done_ > operation.after_event &&
               pushes_left_[static_cast<size_t>(operation.unit)] == 0;
    }
    return false;
  }

  void Finished(const SimulatedJob& job, double seconds) {
    zero::UnitOperation& operation = *job.operation;
    const size_t staging = static_cast<size_t>(operation.staging);
    result_.hop_seconds[zero::Index(job.hop)] += seconds;
    if (zero::IsSlow(job.hop)) {
      result_.slow_bytes_per_host +=
          static_cast<int64_t>(job.cost->bytes) * plan_.topology.ranks_per_host();
      --operation.slow_left;
    } else {
      --operation.fast_left;
    }
    if (operation.kind == Kind::kPush) {
      --pushes_left_[static_cast<size_t>(operation.unit)];
      if (operation.done()) codes_user_[staging] = nullptr;
    } else if (operation.kind == Kind::kReduce) {
      if (job.hop == Hop::kFastReduce && operation.fast_left == 0) {
        gradient_busy_[static_cast<size_t>(operation.buffer)] = false;
      }
      if (operation.slow_left == 0 && operation.fast_left == 0) staging_user_[staging] = nullptr;
    }
  }

  // --- time
  template <typename Condition>
  void AwaitThat(Condition&& holds) {
    Settle();
    while (!holds()) result_.exposed_s += Tick(nullptr, kNever);
  }

  void Sleep(double seconds) {
    const double end = now_ + seconds;
    while (now_ < end) Tick(nullptr, end);
    result_.exposed_s += seconds;
  }

  void Work(double seconds, double& sum) {
    Activity mine{.left = seconds, .rate = 1, .cores = machine_.compute_threads};
    const double begin = now_;
    while (mine.active()) Tick(&mine, kNever);
    sum += now_ - begin;
  }

  void Settle() {
    const auto ready = [this](const SimulatedJob& job) { return Ready(job); };
    const auto finished = [this](const SimulatedJob& job, double seconds) {
      Finished(job, seconds);
    };
    bool moved = true;
    while (moved) {
      slow_link_.Settle(now_);
      fast_link_.Settle(now_);
      moved = slow_lane_.Advance(now_, ready, finished);
      moved = fast_lane_.Advance(now_, ready, finished) || moved;
    }
  }

  // Goes on to when the next thing ends, or to `until`; returns how long that took.
  double Tick(Activity* caller, double until);

  static constexpr double kNever = std::numeric_limits<double>::infinity();

  const zero::Plan& plan_;
  const Machine& machine_;
  SimulatedLink slow_link_, fast_link_;
  SimulatedLane slow_lane_, fast_lane_;
  std::vector<std::array<std::vector<ExchangeCost>, zero::kHops>> costs_;  // by unit and chunk
  zero::Program program_;
  Operations pass_, pushes_;
  std::vector<zero::UnitOperation*> gathers_, reduces_;  // as the program's
  std::vector<zero::UnitOperation*> push_of_unit_;
  std::vector<Call> pass_script_, step_script_;

  double now_ = 0;
  double step_began_ = 0;
  StepPrediction result_;
  bool last_pass_ = true;  // of a step
  int events_done_ = 0;
  std::vector<int> pushes_left_;
  size_t gradient_buffer_ = 0;
  std::array<bool, zero::kGradientBuffers> gradient_busy_{};
  std::array<const void*, zero::kStagingBuffers> staging_user_{}, codes_user_{};
};

double Simulation::Tick(Activity* caller, double until) {
  Settle();
  std::array<Activity*, 5> running{};
  std::array<double, 5> cores{};
  size_t count = 0;
  for (Activity* activity : {caller, slow_lane_.Current(), fast_lane_.Current(),
                             slow_link_.Current(), fast_link_.Current()}) {
    if (activity == nullptr || !activity->active()) continue;
    cores[count] = activity->cores;
    running[count++] = activity;
  }
  ShareFairly(machine_.cores_per_rank, std::span(cores).first(count));
  std::array<double, 5> rates{};
  double step = std::min({until, slow_lane_.Awaited(now_), fast_lane_.Awaited(now_)}) - now_;
  for (size_t i = 0; i < count; ++i) {
    const Activity& activity = *running[i];
    rates[i] = activity.rate * (activity.cores > 0 ? cores[i] / activity.cores : 1);
    step = std::min(step, activity.left / rates[i]);
  }
  THINWIRE_CHECK(step < kNever, "the simulated step waits for something that nobody does");
  if (slow_link_.busy()) result_.slow_link_s += step;
  for (size_t i = 0; i < count; ++i) {
    Activity& activity = *running[i];
    const double moved = rates[i] * step;
    // What ends now ends exactly, whatever the rounding.
    activity.left = activity.left <= moved * (1 + 1e-12) ? 0 : activity.left - moved;
  }
  now_ += step;
  Settle();
  return step;
}

}  // namespace

StepPrediction PredictStep(const zero::Plan& plan, const Machine& machine,
                           std::span<const UnitWork> work) {
  return Simulation(plan, machine, work).Run();
}

}  // namespace thinwire::planner
