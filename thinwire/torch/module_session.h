// One engine for a user's model: links, engine and adapter with their lifetimes in order. What the
// Python module shows of thinwire.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/planner/pilot.h"
#include "thinwire/torch/group_links.h"
#include "thinwire/torch/module_adapter.h"
#include "thinwire/zero/engine.h"
#include "thinwire/zero/options.h"
#include "thinwire/zero/unit.h"

namespace thinwire::adapter {

class ModuleSession {
 public:
  struct Setup {
    zero::EngineOptions options;
    int hosts = 0;           // 0: from the machines that the ranks run on
    int ranks_per_host = 0;  // likewise
    // With recipe auto; see planner::PilotSetup.
    double loss_budget = 0.25;
    int64_t review_steps = 500;
    int64_t tokens = 0;     // of a micro-batch, about: until its computing is measured
    int micro_batches = 1;  // of a step, where options leave it open
  };

  // Made in three steps, so that a model need not be in memory as a whole: this, Fill for every
  // parameter, a unit at a time or a few at once, then Adopt.
  ModuleSession(std::unique_ptr<GroupLinks> links, const Setup& setup,
                const std::vector<zero::UnitSpec>& units);

  zero::Engine& engine() { return engine_; }
  // What recipe auto has chosen, and why; empty with another recipe.
  std::string DescribeChoice() const { return pilot_ ? pilot_->Describe() : std::string(); }
  // Every rank calls it after each step; with recipe auto it says from time to time what steps take
  // beside what was predicted. Otherwise, and most times, empty.
  std::string ReviewChoice();
  // Throws UsageError before Adopt.
  ModuleAdapter& adapter();

  // A whole parameter: contiguous, of the parameter's size, of any type.
  struct Whole {
    int unit = 0;
    int parameter = 0;
    at::Tensor values;
  };
  // The parameters' first values, the same on all ranks: what this rank owns becomes its master.
  void Fill(const std::vector<Whole>& parameters);
  // Takes over the parameters (as in `units`), whose memory is not needed any more: see
  // ModuleAdapter, which `units_of_module` is for. Every rank calls it.
  void Adopt(const std::vector<std::vector<at::Tensor>>& parameters,
             ModuleAdapter::UnitsOfModule units_of_module);

  // Copies what this rank owns of the fp32 master weights there; the other elements stay.
  void ReadOwned(const std::vector<Whole>& parameters);
  // Writes the elements that this rank owns and that differ from what the master is in their type:
  // what was not edited keeps its fp32 value. Returns whether there were any; then every rank calls
  // adapter().RefreshWeights().
  bool WriteOwned(const std::vector<Whole>& parameters);

 private:
  std::unique_ptr<GroupLinks> links_;
  std::optional<planner::Pilot> pilot_;  // with recipe auto
  zero::Engine engine_;
  std::optional<ModuleAdapter> adapter_;
};

}  // namespace thinwire::adapter
