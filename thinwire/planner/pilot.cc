#include "thinwire/planner/pilot.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "thinwire/base/error.h"
#include "thinwire/comm/agreement.h"
#include "thinwire/planner/cpu_time.h"
#include "thinwire/planner/measured.h"

namespace thinwire::planner {
namespace {

// Of a step, in which the slow lane is busy: then the link is what the step waits for.
constexpr double kLinkBound = 0.7;

double Median(std::vector<double>& values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<std::string_view> Names() {
  std::vector<std::string_view> names;
  for (const KnownRecipe& known : KnownRecipes()) names.push_back(known.name);
  return names;
}

// The least memory that a rank has, and the mean of its estimated computing.
void AgreeOnSetup(PilotSetup& setup, transport::Transport& control, const ExecContext& context) {
  comm::Agreement agreement(control, context);
  comm::Record record;
  record.SetIntent(0, "what recipe auto starts from");
  record.values = {static_cast<double>(setup.memory_bytes), setup.compute_s};
  const auto records = agreement.Exchange(record);
  double least = 0;
  for (const comm::Record& each : records) {
    if (each.values[0] > 0 && (least == 0 || each.values[0] < least)) least = each.values[0];
  }
  setup.memory_bytes = static_cast<int64_t>(least);
  setup.compute_s = comm::SumOf(records, 1) / static_cast<double>(records.size());
}

double SlowSeconds(const StepPrediction& step) {
  return step.hop_seconds[zero::Index(zero::Hop::kSlowGather)] +
         step.hop_seconds[zero::Index(zero::Hop::kSlowReduce)];
}

}  // namespace

Pilot::Pilot(PilotSetup setup, const ProbeLinks& links, const ExecContext& context)
    : setup_(std::move(setup)),
      first_(setup_.topology.hosts(), setup_.topology.ranks_per_host(), 0) {
  AgreeOnSetup(setup_, links.control, context);
  const DType wire = setup_.options.wire.value_or(setup_.options.compute);
  machine_ = Measure(links, setup_.topology, Names(), wire, context);
  machine_.compute_threads = setup_.threads;
  probed_cores_ = machine_.cores_per_rank;
  compute_s_ = setup_.compute_s;
  layout_ = zero::MakeLayout(setup_.units, setup_.topology.hosts(),
                             setup_.topology.ranks_per_host(), setup_.options.compute);
  work_ = SplitWork(layout_, compute_s_);
  const Question question = Ask();
  choice_ = Choose(question);
  current_ = choice_.best();
  if (setup_.tune) Tune(question, current_);
}

Question Pilot::Ask() const {
  return {.units = setup_.units,
          .topology = first_,
          .options = setup_.options,
          .machine = machine_,
          .work = work_,
          .loss_budget = setup_.loss_budget,
          .memory_bytes = setup_.memory_bytes};
}

std::string Pilot::Describe() const {
  std::ostringstream out;
  out << std::setprecision(3) << "recipe auto: " << planner::Describe(machine_, setup_.topology)
      << "\n  computing takes " << compute_s_ << " s per micro-batch on a rank alone ("
      << setup_.compute_origin << ")\n"
      << planner::Describe(Ask(), choice_);
  const zero::EngineOptions& asked = setup_.options;
  if (current_.options.prefetch != asked.prefetch ||
      current_.options.chunk_bytes != asked.chunk_bytes) {
    out << "  with prefetch " << current_.options.prefetch << " and chunk_bytes "
        << current_.options.chunk_bytes << ": " << current_.step.seconds << " s\n";
  }
  return out.str();
}

std::string Pilot::ToJson() const {
  double parameters = 0;
  for (const zero::UnitLayout& unit : layout_) parameters += static_cast<double>(unit.numel());
  nlohmann::ordered_json json{{"machine", planner::ToJson(machine_)},
                              {"compute_s", compute_s_},
                              {"flops", setup_.operations / std::max(compute_s_, 1e-9)},
                              {"compute_origin", setup_.compute_origin},
                              {"recipe", current_.recipe},
                              {"prefetch", current_.options.prefetch},
                              {"chunk_bytes", current_.options.chunk_bytes}};
  for (const Candidate& each : choice_.candidates) {
    json["recipes"].push_back(planner::ToJson(each, parameters));
  }
  return json.dump(2) + "\n";
}

Pilot::Mark Pilot::Now(const zero::Engine& engine) const {
  return {WallSeconds(), ThreadCpuSeconds(), engine.traffic().seconds};
}

void Pilot::Pause() { paused_ = true; }

std::optional<Pilot::Review> Pilot::AfterStep(zero::Engine& engine) {
  const Mark now = Now(engine);
  ++steps_;
  if (!paused_ && steps_ > kWarmUp) {
    const auto hop = [&](zero::Hop which) {
      return now.hops[zero::Index(which)] - mark_.hops[zero::Index(which)];
    };
    wall_.push_back(now.wall - mark_.wall);
    cpu_.push_back(now.cpu - mark_.cpu);
    slow_.push_back(hop(zero::Hop::kSlowGather) + hop(zero::Hop::kSlowReduce));
  }
  mark_ = now;
  paused_ = false;
  const bool due = setup_.review_steps > 0 && steps_ >= kFirstReview &&
                   (steps_ - kFirstReview) % setup_.review_steps == 0;
  if (!due) return std::nullopt;
  Review review = Look(engine);
  wall_.clear();
  cpu_.clear();
  slow_.clear();
  paused_ = true;
  return review;
}

// Sets `value`, of which more makes a step faster, to where seconds(predicted step) are those that
// are wanted, by halving.
template <typename Seconds>
void Pilot::Fit(double& value, double low, double high, double wanted_s, const Seconds& seconds) {
  constexpr int kHalvings = 16;
  for (int i = 0; i < kHalvings; ++i) {
    value = std::sqrt(low * high);
    const zero::Plan plan = zero::MakePlan(setup_.units, first_, current_.options);
    const bool slower = seconds(PredictStep(plan, machine_, work_)) > wanted_s;
    (slower ? low : high) = value;
  }
}

// The rate at which the slow hops would have taken as long as they did. What a lane spends there
// holds more than the link's time, so the simulation is asked.
void Pilot::FitSlowLink(double slow_seconds) {
  constexpr double kRange = 64;
  double& rate = machine_.slow.bytes_per_s;
  Fit(rate, rate / kRange, rate * kRange, slow_seconds, SlowSeconds);
}

// The cores with which a step would have taken as long as it did: ranks that share a core wait for
// each other's turns, and for whatever else the machine does.
void Pilot::FitCores(double step_seconds) {
  constexpr double kLeast = 0.25;
  double& cores = machine_.cores_per_rank;
  const auto seconds = [](const StepPrediction& step) { return step.seconds; };
  if (!std::isfinite(cores)) return;
  Fit(cores, kLeast * cores, cores, step_seconds, seconds);
}

Pilot::Review Pilot::Look(zero::Engine& engine) {
  const auto agreed = [&](std::vector<double>& values) {
    return engine.MeanOverRanks(values.empty() ? 0 : Median(values));
  };
  const double measured_s = agreed(wall_), cpu_s = agreed(cpu_), slow_s = agreed(slow_);
  Review review;
  if (measured_s <= 0) return review;  // every step was followed by something else
  const double predicted_s = current_.step.seconds;
  const int micro_batches = std::max(1, setup_.options.micro_batches);
  compute_s_ =
      std::max(0.0, cpu_s - current_.step.optimizer_s * std::min(1.0, machine_.cores_per_rank)) /
      micro_batches;
  setup_.compute_origin = "measured";
  work_ = SplitWork(layout_, compute_s_);
  const double probed = machine_.slow.bytes_per_s;
  const bool link_bound = setup_.topology.hosts() > 1 && slow_s > kLinkBound * measured_s;
  if (setup_.topology.hosts() > 1 && slow_s > 0) {
    FitSlowLink(slow_s);
    // What a lane waits for other ranks looks like a slow link, unless it fills the step.
    if (machine_.slow.bytes_per_s < probed && !link_bound) machine_.slow.bytes_per_s = probed;
  }
  machine_.cores_per_rank = probed_cores_;
  if (!link_bound) FitCores(measured_s);

  const Question question = Ask();
  Candidate again = Predict(question, current_.options.recipe);
  again.options = current_.options;
  choice_ = Choose(question);
  next_ = choice_.best();
  if (setup_.tune) Tune(question, *next_);
  review.change = WorthSwitching(again, *next_);
  std::ostringstream out;
  out << std::setprecision(3) << "recipe " << current_.recipe << " after " << steps_
      << " steps: " << measured_s << " s per step measured, " << predicted_s
      << " predicted; computing " << compute_s_ << " s";
  if (setup_.topology.hosts() > 1) {
    out << ", slow link " << machine_.slow.bytes_per_s / 1e6 << " MB/s (" << probed / 1e6
        << " before)";
  }
  out << "\n";
  if (review.change) {
    out << "  " << next_->recipe << " is predicted to take " << next_->step.seconds << " s, "
        << current_.recipe << " " << again.step.seconds << " s\n"
        << planner::Describe(question, choice_);
  }
  current_.step = again.step;
  review.text = out.str();
  while (review.text.ends_with('\n')) review.text.pop_back();
  return review;
}

void Pilot::Change() {
  THINWIRE_CHECK(next_.has_value());
  current_ = *next_;
  steps_ = 0;
  Pause();
}

void MoveState(zero::Engine& from, zero::Engine& to) {
  const std::vector<zero::OwnedStretch> old = from.Owned();
  const std::vector<zero::OwnedStretch> fresh = to.Owned();
  THINWIRE_CHECK(old.size() == fresh.size(), old.size(), " stretches");
  for (size_t i = 0; i < old.size(); ++i) {
    THINWIRE_CHECK(old[i].unit == fresh[i].unit && old[i].parameter == fresh[i].parameter &&
                   old[i].offset == fresh[i].offset);
    const auto copy = [](std::span<const float> source, std::span<float> target) {
      THINWIRE_CHECK(source.size() == target.size());
      std::ranges::copy(source, target.begin());
    };
    copy(old[i].master, fresh[i].master);
    for (size_t s = 0; s < old[i].states.size(); ++s) copy(old[i].states[s], fresh[i].states[s]);
  }
  from.HandOver();
  to.RefreshWeights(from.progress());
}

}  // namespace thinwire::planner
