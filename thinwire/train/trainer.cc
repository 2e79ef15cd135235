#include "thinwire/train/trainer.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "thinwire/base/error.h"
#include "thinwire/base/process_memory.h"
#include "thinwire/comm/watchdog.h"
#include "thinwire/io/file.h"
#include "thinwire/optim/schedule.h"
#include "thinwire/planner/pilot.h"
#include "thinwire/torch/matmul_speed.h"
#include "thinwire/train/agree.h"
#include "thinwire/train/batches.h"
#include "thinwire/train/checkpoints.h"
#include "thinwire/train/metrics.h"
#include "thinwire/train/progress.h"
#include "thinwire/train/report.h"
#include "thinwire/train/sharded_llama.h"
#include "thinwire/train/step_trace.h"

namespace thinwire::train {

class Trainer::Impl {
 public:
  Impl(Config config, const launch::LaunchEnvironment& environment, bool resume)
      : config_(std::move(config)), environment_(environment), resume_(resume) {
    if (!config_.parallel.interface.empty()) environment_.interface = config_.parallel.interface;
    TracedSteps(config_.output.trace_steps, 0);  // throws now rather than in the run
  }

  void Run() {
    OpenData();
    Join();
    Begin();
    if (step_ >= config_.training.steps) {
      Say(StrCat("nothing to do: the checkpoint is of step ", step_, " and training.steps is ",
                 config_.training.steps));
      return;
    }
    Loop();
    End();
  }

  transport::HeartbeatBoard* board() { return group_ ? &group_->board() : nullptr; }

 private:
  bool first() const { return environment_.rank == 0; }
  void Say(std::string_view text) {
    if (progress_) progress_->Say(text);
  }

  void OpenData();
  void Join();
  void ChooseRecipe(const comm::Topology& topology, zero::EngineOptions& options);
  void MakeModel();
  void MakeObservers();
  void ReviewRecipe();
  void ChangeRecipe();
  void SavePilot();
  int64_t RanksHere() const;
  void Begin();
  void Loop();
  StepMetrics TakeStep(int64_t step);
  void Evaluate(int64_t step);
  void Save(int64_t step);
  void End();

  Config config_;
  launch::LaunchEnvironment environment_;
  bool resume_;
  std::unique_ptr<StopSignals> stop_;  // once all ranks are here

  std::unique_ptr<ByteCorpus> corpus_;
  std::unique_ptr<Sampler> training_data_;
  std::unique_ptr<Sampler> evaluation_data_;
  std::unique_ptr<launch::ProcessGroup> group_;
  std::unique_ptr<planner::Pilot> pilot_;  // with recipe auto
  std::unique_ptr<zero::Engine> engine_;
  std::unique_ptr<ShardedLlama> model_;
  std::unique_ptr<Checkpoints> checkpoints_;
  std::unique_ptr<Batches> batches_;
  std::unique_ptr<Batches> evaluation_batches_;
  BatchShape shape_;
  int64_t memory_before_ = 0;

  // Rank 0 only.
  std::unique_ptr<MetricsLog> metrics_;
  std::unique_ptr<Progress> progress_;

  std::unique_ptr<Meter> meter_;
  StepRange traced_;
  std::unique_ptr<StepTrace> trace_;
  // More than the steps in which fp16's loss scale can go from its start to 1.
  static constexpr int kMostSkipped = 25;

  int64_t step_ = 0;  // training steps done, skipped ones too
  int skipped_in_a_row_ = 0;
  int64_t saved_ = -1;  // the step of the newest checkpoint
  RunResult result_;
};

void Trainer::Impl::OpenData() {
  const DataConfig& data = config_.data;
  corpus_ = std::make_unique<ByteCorpus>(FindFiles(data.files));
  const Split split = SplitCorpus(corpus_->tokens(), data.evaluation_fraction);
  const auto seed = static_cast<uint64_t>(config_.training.seed);
  training_data_ =
      std::make_unique<Sampler>(*corpus_, split.train, data.sequence_length, seed, "training");
  if (config_.training.evaluate_every > 0) {
    // Always the same samples in the same order, whatever the seed.
    evaluation_data_ = std::make_unique<Sampler>(*corpus_, split.evaluation, data.sequence_length,
                                                 0, "evaluation");
  }
}

// Ranks that share this machine's memory.
int64_t Trainer::Impl::RanksHere() const {
  const std::vector<std::string>& machines = group_->machine_of_rank();
  return std::ranges::count(machines, machines[static_cast<size_t>(environment_.rank)]);
}

// The plan's buffers are touched at once: better one line now than the kernel's killer.
void RequireMemory(const zero::Plan& plan, int64_t ranks_here) {
  const int64_t available = AvailableBytes();
  const double needed = static_cast<double>(plan.memory_bytes()) * static_cast<double>(ranks_here);
  if (available == 0 || needed <= static_cast<double>(available)) return;
  throw UsageError(StrCat("the plan needs ", needed / (1 << 30), " GiB for the ", ranks_here,
                          " ranks of this machine, which has ",
                          static_cast<double>(available) / (1 << 30),
                          " GiB available: take a smaller model, a smaller parallel.prefetch, or "
                          "more machines"));
}

// 0 where the topology is to be detected, or makes no sense, which Topology::Resolve() says.
int RanksPerHostGiven(const ParallelConfig& parallel, int world) {
  if (parallel.ranks_per_host > 0) return static_cast<int>(parallel.ranks_per_host);
  const bool even = parallel.hosts > 0 && world % parallel.hosts == 0;
  return even ? static_cast<int>(world / parallel.hosts) : 0;
}

void Trainer::Impl::Join() {
  // Until all are here there is no step to stop at, nor anything to save: a signal ends the wait.
  group_ = std::make_unique<launch::ProcessGroup>(
      environment_, DeadlineOf(config_), config_.parallel.shared_memory,
      RanksPerHostGiven(config_.parallel, environment_.world));
  stop_ = std::make_unique<StopSignals>();
  // The engine watches its peers; until there is one, this does.
  const comm::Watchdog watchdog(group_->board(), environment_.rank, environment_.world,
                                DeadlineOf(config_), [this](const std::string& lost) {
                                  group_->control().Abort(lost);
                                  group_->bulk().Abort(lost);
                                });
  AgreeOnConfig(group_->control(), config_, corpus_->Fingerprint());
  const comm::Topology topology = comm::Topology::Resolve(
      environment_.rank, environment_.world, static_cast<int>(config_.parallel.hosts),
      static_cast<int>(config_.parallel.ranks_per_host), group_->machine_of_rank());
  ForgetPeak();
  memory_before_ = ResidentBytes();
  zero::EngineOptions options = EngineOptionsOf(config_);
  options.near_link = group_->near_link();
  options.near_peers = group_->near_peers();
  if (options.recipe == planner::kAuto) ChooseRecipe(topology, options);
  zero::Plan plan = zero::MakePlan(LlamaUnits(config_.model), topology, options);
  if (first()) {
    std::printf("%s\n", zero::Describe(plan).c_str());
    std::printf("data: %lld tokens in %lld files, %lld windows to train on\n",
                static_cast<long long>(corpus_->tokens()),
                static_cast<long long>(corpus_->documents()),
                static_cast<long long>(training_data_->windows()));
    if (environment_.world == 1 && !config_.parallel.interface.empty()) {
      std::printf("parallel.interface = %s is not used: one rank sends nothing\n",
                  config_.parallel.interface.c_str());
    }
    std::fflush(stdout);
  }
  RequireMemory(plan, RanksHere());
  engine_ = std::make_unique<zero::Engine>(
      std::move(plan), zero::Links{group_->bulk(), group_->control(), group_->board()});
}

void Trainer::Impl::ChooseRecipe(const comm::Topology& topology, zero::EngineOptions& options) {
  const ParallelConfig& parallel = config_.parallel;
  const int64_t tokens = config_.training.micro_batch * config_.data.sequence_length;
  const std::vector<zero::UnitSpec> units = LlamaUnits(config_.model);
  const double operations = planner::OperationsOf(
      zero::MakeLayout(units, topology.hosts(), topology.ranks_per_host(), options.compute),
      tokens);
  const ParallelConfig defaults;
  planner::PilotSetup setup{
      .units = units,
      .topology = topology,
      .options = options,
      .tune =
          parallel.prefetch == defaults.prefetch && parallel.chunk_bytes == defaults.chunk_bytes,
      .loss_budget = parallel.loss_budget,
      .memory_bytes = AvailableBytes() / RanksHere(),
      .compute_s = operations / adapter::MatmulSpeed(tokens, config_.model.hidden,
                                                     config_.model.intermediate, options.compute),
      .compute_origin = "estimated from a matrix product, until it is measured",
      .operations = operations,
      .threads = at::get_num_threads(),
      .review_steps = parallel.review_steps};
  pilot_ = std::make_unique<planner::Pilot>(std::move(setup),
                                            planner::ProbeLinks{group_->bulk(), group_->control()});
  options = pilot_->options();
  if (first()) std::printf("%s", pilot_->Describe().c_str());
}

// What works with the engine.
void Trainer::Impl::MakeModel() {
  model_ = std::make_unique<ShardedLlama>(
      config_.model, *engine_,
      ShardedLlama::Options{.sequence_length = config_.data.sequence_length,
                            .activation_checkpointing = config_.training.activation_checkpointing});
  checkpoints_ =
      std::make_unique<Checkpoints>(config_, *engine_,
                                    DataIdentity{.fingerprint = corpus_->Fingerprint(),
                                                 .samples_per_step = shape_.samples_per_step()});
}

// What looks at the engine while it trains.
void Trainer::Impl::MakeObservers() {
  trace_ = std::make_unique<StepTrace>(*engine_, config_.output.trace, traced_,
                                       [this](const std::string& text) { Say(text); });
  meter_ = std::make_unique<Meter>(*engine_);
}

// After a step: what it took beside what was predicted, and from time to time another recipe.
void Trainer::Impl::ReviewRecipe() {
  const auto review = pilot_->AfterStep(*engine_);
  if (!review) return;
  meter_->Pause();
  if (first()) Say(review->text);
  if (review->change) ChangeRecipe();
  SavePilot();
  meter_->Continue();
}

void Trainer::Impl::SavePilot() {
  if (!pilot_ || !first()) return;
  io::WriteFileAtomically(io::RealFileSystem(), config_.output.directory + "/planner.json",
                          pilot_->ToJson());
}

// Both engines are in memory for a moment.
void Trainer::Impl::ChangeRecipe() {
  zero::Plan plan =
      zero::MakePlan(LlamaUnits(config_.model), engine_->plan().topology, pilot_->next_options());
  const int64_t available = AvailableBytes();
  const bool fits = available == 0 || plan.memory_bytes() * RanksHere() <= available;
  if (engine_->MeanOverRanks(fits ? 1 : 0) != 1) {
    if (first()) Say("  there is no memory for both engines at once: the recipe stays");
    return;
  }
  pilot_->Change();
  auto engine = std::make_unique<zero::Engine>(
      std::move(plan), zero::Links{group_->bulk(), group_->control(), group_->board()});
  planner::MoveState(*engine_, *engine);
  trace_->End();  // what there is of it
  trace_.reset();
  meter_.reset();
  checkpoints_.reset();
  model_.reset();
  engine_ = std::move(engine);
  MakeModel();
  MakeObservers();
  if (first()) Say(zero::Describe(engine_->plan()));
}

void Trainer::Impl::Begin() {
  const TrainingConfig& training = config_.training;
  shape_ = {.rank = environment_.rank,
            .world = environment_.world,
            .micro_batch = training.micro_batch,
            .micro_batches = training.micro_batches,
            .sequence_length = config_.data.sequence_length};
  batches_ = std::make_unique<Batches>(*training_data_, shape_);
  if (evaluation_data_) {
    BatchShape evaluation = shape_;
    evaluation.micro_batches = 1;
    evaluation_batches_ = std::make_unique<Batches>(*evaluation_data_, evaluation);
  }
  MakeModel();
  io::Together([this](bool ok) { return engine_->MeanOverRanks(ok ? 1 : 0) == 1; },
               config_.output.directory,
               [&] {
                 if (first()) {
                   io::MakeDirectories(io::RealFileSystem(), config_.output.directory);
                 }
               });
  std::string note;
  const std::optional<int64_t> resumed =
      resume_ ? checkpoints_->Resume(note) : std::optional<int64_t>();
  if (!resume_) checkpoints_->RequireNone();
  step_ = saved_ = resumed.value_or(0);
  if (!resumed) {
    saved_ = -1;
    FillOwned(config_.model, static_cast<uint64_t>(training.seed), *engine_);
    engine_->RefreshWeights(0);
  }
  SavePilot();
  if (!first()) return;
  metrics_ = std::make_unique<MetricsLog>(config_.output.directory + "/metrics.jsonl", step_);
  progress_ =
      std::make_unique<Progress>(stdout, Progress::Options{.first_step = step_,
                                                           .steps = training.steps,
                                                           .terminal = isatty(STDOUT_FILENO) != 0});
  if (resume_) Say(resumed ? StrCat("resumed at step ", step_) : "nothing to resume, from step 0");
  if (!note.empty()) Say(StrCat("changed since the checkpoint: ", note));
}

void Trainer::Impl::Loop() {
  const TrainingConfig& training = config_.training;
  const auto due = [&](int64_t every) { return every > 0 && step_ % every == 0; };
  result_.loss = result_.evaluation_loss = std::numeric_limits<double>::quiet_NaN();
  traced_ = TracedSteps(config_.output.trace_steps, step_);
  MakeObservers();
  while (step_ < training.steps && !result_.stopped) {
    trace_->Before(step_ + 1);
    const StepMetrics metrics = TakeStep(step_);
    if (first()) {
      metrics_->Step(metrics);
      progress_->Step(metrics);
    }
    const bool last = step_ == training.steps;
    const bool evaluate = evaluation_data_ && (due(training.evaluate_every) || last);
    const bool save = due(config_.output.save_every);
    const bool traced = trace_->After(step_);
    if (pilot_ && !last) ReviewRecipe();
    if (!evaluate && !save && !traced) continue;
    meter_->Pause();
    if (pilot_) pilot_->Pause();
    if (evaluate) Evaluate(step_);
    if (save) Save(step_);
    meter_->Continue();
  }
  meter_->Pause();
  trace_->End();
}

StepMetrics Trainer::Impl::TakeStep(int64_t step) {
  const TrainingConfig& training = config_.training;
  const optim::ScheduleOptions schedule{.peak = training.learning_rate,
                                        .floor_ratio = training.floor_ratio,
                                        .warmup_steps = training.warmup_steps,
                                        .total_steps = training.steps};
  const double lr = optim::LearningRate(schedule, step);
  double loss = 0;
  for (int64_t micro = 0; micro < training.micro_batches; ++micro) {
    batches_->Load(step, micro);
    loss +=
        model_->Train(batches_->tokens(), batches_->targets(), micro + 1 == training.micro_batches);
  }
  const zero::StepResult done =
      engine_->Step({.lr = static_cast<float>(lr),
                     .loss = loss / static_cast<double>(training.micro_batches),
                     .stop = stop_->requested()});
  for (const std::string& note : done.notes) {
    if (first()) Say(note);
  }
  step_ = step + 1;
  result_.step = step_;
  result_.loss = done.loss;
  result_.stopped = done.stop && step_ < training.steps;
  skipped_in_a_row_ = done.applied ? 0 : skipped_in_a_row_ + 1;
  if (skipped_in_a_row_ == kMostSkipped) {
    throw UsageError(StrCat("the gradients of ", kMostSkipped,
                            " steps in a row held inf or NaN: the model has diverged. Go on from a "
                            "checkpoint before step ",
                            step_ - kMostSkipped + 1, " with a smaller training.learning_rate"));
  }
  const Meter::Interval interval = meter_->EndStep();
  const zero::Plan& plan = engine_->plan();
  return {.step = step_,
          .loss = done.loss,
          .grad_norm = done.grad_norm,
          .lr = lr,
          .seconds = interval.seconds,
          .tokens_per_s = static_cast<double>(shape_.tokens_per_step()) / interval.seconds,
          // Of this rank, times the ranks of a host, which own equal parts but for a block.
          .slow_bytes_per_param = static_cast<double>(interval.slow_bytes) *
                                  plan.topology.ranks_per_host() /
                                  static_cast<double>(plan.parameters),
          .applied = done.applied};
}

// Of the weights that a checkpoint would hold, not of those that differences have yet to reach.
void Trainer::Impl::Evaluate(int64_t step) {
  engine_->CatchUp();
  double loss = 0;
  for (int64_t batch = 0; batch < config_.training.evaluation_batches; ++batch) {
    evaluation_batches_->Load(batch, 0);
    loss += model_->Evaluate(evaluation_batches_->tokens(), evaluation_batches_->targets());
  }
  loss /= static_cast<double>(config_.training.evaluation_batches);
  result_.evaluation_loss = engine_->MeanOverRanks(loss);
  if (!first()) return;
  metrics_->Evaluation(step, result_.evaluation_loss);
  Say(StrCat("step ", step, ": loss on unseen text ", result_.evaluation_loss));
}

void Trainer::Impl::Save(int64_t step) {
  std::string warning;
  const std::string path = checkpoints_->Save(step, warning);
  saved_ = step;
  Say(StrCat("saved ", path));
  if (!warning.empty()) Say(StrCat("warning: ", warning));
}

void Trainer::Impl::End() {
  if (config_.output.save_last && saved_ != step_) Save(step_);
  result_.step = step_;
  Gather(*engine_, *meter_, shape_.tokens_per_step(), memory_before_, result_);
  if (!first()) return;
  io::WriteFileAtomically(io::RealFileSystem(), config_.output.directory + "/summary.json",
                          train::ToJson(engine_->plan(), result_));
  if (result_.stopped) Say("stopped on request; go on with --resume");
  Say(Describe(engine_->plan(), result_));
}

Trainer::Trainer(Config config, const launch::LaunchEnvironment& environment, bool resume)
    : impl_(std::make_unique<Impl>(std::move(config), environment, resume)) {}
Trainer::~Trainer() = default;
void Trainer::Run() { impl_->Run(); }
transport::HeartbeatBoard* Trainer::board() { return impl_->board(); }

}  // namespace thinwire::train
