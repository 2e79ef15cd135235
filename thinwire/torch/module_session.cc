#include "thinwire/torch/module_session.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>

#include <map>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/comm/topology.h"

namespace thinwire::adapter {
namespace {

using at::Tensor;

zero::Plan PlanOf(const GroupLinks& links, const ModuleSession::Setup& setup,
                  const std::vector<zero::UnitSpec>& units) {
  zero::EngineOptions options = setup.options;
  options.near_link = links.near_link();
  options.near_peers = links.near_peers();
  return zero::MakePlan(units,
                        comm::Topology::Resolve(links.rank(), links.world(), setup.hosts,
                                                setup.ranks_per_host, links.machine_of_rank()),
                        options);
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
    : links_(std::move(links)), engine_(PlanOf(*links_, setup, units), links_->links()) {}

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
