#include "thinwire/torch/module_session.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/comm/topology.h"

namespace thinwire::adapter {
namespace {

using at::Tensor;

zero::Plan PlanOf(const GroupLinks& links, const ModuleSession::Setup& setup,
                  const std::vector<zero::UnitSpec>& units) {
  return zero::MakePlan(units,
                        comm::Topology::Resolve(links.rank(), links.world(), setup.hosts,
                                                setup.ranks_per_host, links.machine_of_rank()),
                        setup.options);
}

// Calls copy(owned, the same stretch of the full tensor), both 1-D; the first one is fp32. A full
// tensor that is not defined is left out.
template <typename Copy>
void ForOwned(zero::Engine& engine, const std::vector<std::vector<Tensor>>& full, Copy&& copy) {
  const c10::AutoGradMode no_grad(false);
  for (const zero::OwnedStretch& owned : engine.Owned()) {
    const Tensor& whole =
        full.at(static_cast<size_t>(owned.unit)).at(static_cast<size_t>(owned.parameter));
    if (!whole.defined()) continue;
    const auto size = static_cast<int64_t>(owned.master.size());
    copy(at::from_blob(owned.master.data(), {size}, at::kFloat),
         whole.view({-1}).narrow(0, owned.offset, size));
  }
}

// The adapter takes the parameters' memory away, so this comes first.
ModuleAdapter::UnitsOfModule Fill(zero::Engine& engine,
                                  const std::vector<std::vector<Tensor>>& parameters,
                                  ModuleAdapter::UnitsOfModule units_of_module) {
  std::vector<std::vector<Tensor>> values;
  for (const std::vector<Tensor>& unit : parameters) {
    std::vector<Tensor>& list = values.emplace_back();
    for (const Tensor& parameter : unit) list.push_back(parameter.detach().contiguous());
  }
  ForOwned(engine, values, [](const Tensor& own, const Tensor& part) { own.copy_(part); });
  engine.RefreshWeights(0);
  return units_of_module;
}

}  // namespace

ModuleSession::ModuleSession(std::unique_ptr<GroupLinks> links, const Setup& setup,
                             const std::vector<zero::UnitSpec>& units,
                             const std::vector<std::vector<Tensor>>& parameters,
                             ModuleAdapter::UnitsOfModule units_of_module)
    : links_(std::move(links)),
      engine_(PlanOf(*links_, setup, units), links_->links()),
      adapter_(engine_, parameters, Fill(engine_, parameters, std::move(units_of_module))) {}

void ModuleSession::ReadOwned(const std::vector<std::vector<Tensor>>& full) {
  ForOwned(engine_, full, [](const Tensor& own, const Tensor& part) { part.copy_(own); });
}

void ModuleSession::WriteOwned(const std::vector<std::vector<Tensor>>& full) {
  ForOwned(engine_, full, [](const Tensor& own, const Tensor& part) { own.copy_(part); });
}

}  // namespace thinwire::adapter
