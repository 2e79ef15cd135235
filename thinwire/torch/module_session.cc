#include "thinwire/torch/module_session.h"

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/process_memory.h"
#include "thinwire/comm/topology.h"
#include "thinwire/comm/watchdog.h"
#include "thinwire/torch/matmul_speed.h"

namespace thinwire::adapter {
namespace {

using at::Tensor;

comm::Topology TopologyOf(const GroupLinks& links, const ModuleSession::Setup& setup) {
  return comm::Topology::Resolve(links.rank(), links.world(), setup.hosts, setup.ranks_per_host,
                                 links.machine_of_rank());
}

// The shape of the largest matrix, as [columns, rows].
std::pair<int64_t, int64_t> LargestMatrix(const std::vector<zero::UnitSpec>& units) {
  std::pair<int64_t, int64_t> largest{1, 1};
  for (const zero::UnitSpec& unit : units) {
    if (!unit.weights_in_backward) continue;
    for (const zero::ParameterSpec& each : unit.parameters) {
      if (each.shape.size() != 2) continue;
      if (each.shape[0] * each.shape[1] <= largest.first * largest.second) continue;
      largest = {each.shape[1], each.shape[0]};
    }
  }
  return largest;
}

std::optional<planner::Pilot> PilotFor(GroupLinks& links, const ModuleSession::Setup& setup,
                                       const std::vector<zero::UnitSpec>& units) {
  if (setup.options.recipe != planner::kAuto) return std::nullopt;
  const comm::Topology topology = TopologyOf(links, setup);
  const zero::Links connected = links.links();
  // The engine watches its peers; until there is one, this does.
  const comm::Watchdog watchdog(connected.board, links.rank(), links.world(),
                                setup.options.deadline, [&](const std::string& lost) {
                                  connected.control.Abort(lost);
                                  connected.bulk.Abort(lost);
                                });
  const auto layout =
      zero::MakeLayout(units, topology.hosts(), topology.ranks_per_host(), setup.options.compute);
  const auto [from, to] = LargestMatrix(units);
  const std::vector<std::string>& machines = links.machine_of_rank();
  const auto here = machines.empty()
                        ? 1
                        : std::ranges::count(machines, machines[static_cast<size_t>(links.rank())]);
  planner::PilotSetup ask{
      .units = units,
      .topology = topology,
      .options = setup.options,
      .tune = false,
      .loss_budget = setup.loss_budget,
      .memory_bytes = AvailableBytes() / here,
      .compute_s = planner::OperationsOf(layout, setup.tokens) /
                   MatmulSpeed(setup.tokens, from, to, setup.options.compute),
      .compute_origin = StrCat("estimated for ", setup.tokens, " tokens until it is measured"),
      .threads = at::get_num_threads(),
      .review_steps = setup.review_steps};
  ask.options.micro_batches = setup.micro_batches;
  return std::optional<planner::Pilot>(std::in_place, std::move(ask),
                                       planner::ProbeLinks{connected.bulk, connected.control});
}

zero::Plan PlanOf(const GroupLinks& links, const ModuleSession::Setup& setup,
                  const std::vector<zero::UnitSpec>& units,
                  const std::optional<planner::Pilot>& pilot) {
  zero::EngineOptions options = setup.options;
  options.near_link = links.near_link();
  options.near_peers = links.near_peers();
  if (pilot) options.recipe = pilot->options().recipe;
  return zero::MakePlan(units, TopologyOf(links, setup), options);
}

// Calls visit(master, part) for each stretch of the parameters that this rank owns: fp32 and the
// same elements of the whole one, both 1-D.
template <typename Visit>
void ForOwned(zero::Engine& engine, const std::vector<ModuleSession::Whole>& parameters,
              Visit&& visit) {
  const c10::AutoGradMode no_grad(false);
  std::map<std::pair<int, int>, Tensor> wanted;
  for (const ModuleSession::Whole& each : parameters) {
    wanted[{each.unit, each.parameter}] = each.values.view({-1});
  }
  for (const zero::OwnedStretch& owned : engine.Owned()) {
    const auto found = wanted.find({owned.unit, owned.parameter});
    if (found == wanted.end()) continue;
    const auto size = static_cast<int64_t>(owned.master.size());
    visit(at::from_blob(owned.master.data(), {size}, at::kFloat),
          found->second.narrow(0, owned.offset, size));
  }
}

}  // namespace

ModuleSession::ModuleSession(std::unique_ptr<GroupLinks> links, const Setup& setup,
                             const std::vector<zero::UnitSpec>& units)
    : links_(std::move(links)),
      pilot_(PilotFor(*links_, setup, units)),
      engine_(PlanOf(*links_, setup, units, pilot_), links_->links()) {}

std::string ModuleSession::ReviewChoice() {
  if (!pilot_) return {};
  const auto review = pilot_->AfterStep(engine_);
  if (!review) return {};
  if (!review->change) return review->text;
  return StrCat(review->text, "\n  to change, save a checkpoint and go on from it with recipe \"",
                pilot_->next_options().recipe, "\" in the config");
}

ModuleAdapter& ModuleSession::adapter() {
  if (!adapter_) throw UsageError("the session has no parameters yet: adopt() them first");
  return *adapter_;
}

void ModuleSession::Fill(const std::vector<Whole>& parameters) {
  ForOwned(engine_, parameters,
           [](const Tensor& master, const Tensor& part) { master.copy_(part); });
}

void ModuleSession::Adopt(const std::vector<std::vector<Tensor>>& parameters,
                          ModuleAdapter::UnitsOfModule units_of_module) {
  engine_.RefreshWeights(0);
  adapter_.emplace(engine_, parameters, std::move(units_of_module));
}

void ModuleSession::ReadOwned(const std::vector<Whole>& parameters) {
  ForOwned(engine_, parameters,
           [](const Tensor& master, const Tensor& part) { part.copy_(master); });
}

bool ModuleSession::WriteOwned(const std::vector<Whole>& parameters) {
  adapter().Settle();
  bool changed = false;
  ForOwned(engine_, parameters, [&](const Tensor& master, const Tensor& part) {
    const Tensor edited = part.ne(master.to(part.scalar_type()));
    if (!edited.any().item<bool>()) return;
    changed = true;
    master.copy_(at::where(edited, part.to(at::kFloat), master));
  });
  return changed;
}

}  // namespace thinwire::adapter
