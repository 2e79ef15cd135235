// Chooses a recipe when a run begins, from what was measured of its links and processors, and looks
// at it again while it runs, from what its steps took. All ranks come to the same decisions: every
// number that enters them is agreed on.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/planner/choice.h"
#include "thinwire/planner/link_probe.h"
#include "thinwire/zero/engine.h"

namespace thinwire::planner {

// In place of a recipe in a config.
constexpr std::string_view kAuto = "auto";

struct PilotSetup {
  std::vector<zero::UnitSpec> units;
  comm::Topology topology;
  zero::EngineOptions options;  // but the recipe
  bool tune = true;             // prefetch and chunk_bytes, too
  double loss_budget = 0.25;    // percent
  int64_t memory_bytes = 0;     // that the engine of this rank may take; 0: not known
  // Until it is measured: seconds of one micro-batch on this rank alone, and where that comes from.
  double compute_s = 0;
  std::string compute_origin;
  double operations = 0;       // of a micro-batch, see OperationsOf
  int threads = 1;             // that computing uses
  int64_t review_steps = 500;  // steps between reviews; 0: none
};

class Pilot {
 public:
  // Collective: measures and chooses.
  Pilot(PilotSetup setup, const ProbeLinks& links, const ExecContext& context = {});

  // What was chosen last.
  const zero::EngineOptions& options() const { return current_.options; }
  const Candidate& current() const { return current_; }
  // What was measured, and the choice: a few lines for people.
  std::string Describe() const;
  // The same for programs; `thinwire plan --measured` reads it.
  std::string ToJson() const;

  struct Review {
    std::string text;     // a few lines for people
    bool change = false;  // another recipe is predicted to be faster by more than kHysteresis
  };
  // Every rank calls it after each step of `engine`, which was made with options(). From time to
  // time (after the first kFirstReview steps, then every review_steps) it is collective and returns
  // what it found.
  std::optional<Review> AfterStep(zero::Engine& engine);
  // After a review with `change`: with what the engine would have to be made.
  const zero::EngineOptions& next_options() const { return next_->options; }
  // After a review with `change`: the caller goes over to what is predicted to be faster, which is
  // then options(), with a new engine. Otherwise the old choice stays.
  void Change();
  // What was done since the last step belongs to none: an evaluation, a save.
  void Pause();

  // The first steps record programs and fill caches.
  static constexpr int64_t kWarmUp = 3;
  static constexpr int64_t kFirstReview = 13;

 private:
  struct Mark {
    double wall = 0;
    double cpu = 0;
    std::array<double, zero::kHops> hops{};
  };
  Question Ask() const;
  Mark Now(const zero::Engine& engine) const;
  template <typename Seconds>
  void Fit(double& value, double low, double high, double wanted_s, const Seconds& seconds);
  void FitSlowLink(double slow_seconds);
  void FitCores(double step_seconds);
  Review Look(zero::Engine& engine);

  PilotSetup setup_;
  comm::Topology first_;  // all ranks simulate the first one: shards differ by a few elements
  Machine machine_;
  double probed_cores_ = 0;  // per rank, as the machine has them
  double compute_s_ = 0;
  std::vector<zero::UnitLayout> layout_;
  std::vector<UnitWork> work_;
  Choice choice_;
  Candidate current_;
  std::optional<Candidate> next_;

  int64_t steps_ = 0;  // of the engine in use
  bool paused_ = true;
  Mark mark_;
  std::vector<double> wall_, cpu_, slow_;  // by step since the last review
};

// Copies what `from` owns and where its optimizer stands into `to`, an engine of the same units,
// topology and optimizer that was made over the same links. Between steps; every rank calls it.
// `from` hands its place over: all that is left to do with it is to destroy it.
void MoveState(zero::Engine& from, zero::Engine& to);

}  // namespace thinwire::planner
