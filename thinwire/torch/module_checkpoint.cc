#include "thinwire/torch/module_checkpoint.h"

#include <nlohmann/json.hpp>

#include "thinwire/base/error.h"
#include "thinwire/io/atomic_directory.h"
#include "thinwire/io/together.h"
#include "thinwire/zero/checkpoint.h"
#include "thinwire/zero/checkpoint_debts.h"
#include "thinwire/zero/optimizer_progress.h"

namespace thinwire::adapter {
namespace {

std::vector<zero::UnitSpec> UnitsOf(const zero::Plan& plan) {
  std::vector<zero::UnitSpec> units;
  for (const zero::UnitLayout& unit : plan.units) units.push_back(unit.spec);
  return units;
}

io::AllAgree AllAgree(zero::Engine& engine) {
  return [&engine](bool ok) { return engine.MeanOverRanks(ok ? 1 : 0) == 1; };
}

}  // namespace

std::string SaveModuleCheckpoint(zero::Engine& engine, const SaveRequest& request) {
  const zero::Plan& plan = engine.plan();
  const io::AllAgree all_agree = AllAgree(engine);
  io::Together(all_agree, request.root, [&] {
    if (plan.topology.rank() == 0) io::MakeDirectories(io::RealFileSystem(), request.root);
  });
  std::vector<zero::UnitSpec> units = UnitsOf(plan);
  engine.CatchUp();
  std::vector<zero::OwnedStretch> owned = engine.Owned();
  if (!request.frozen) {
    std::erase_if(owned, [&](const zero::OwnedStretch& each) {
      return !units[static_cast<size_t>(each.unit)].trainable;
    });
    for (zero::UnitSpec& unit : units) {
      if (!unit.trainable) unit.parameters.clear();
    }
  }
  return zero::SaveCheckpoint(
      io::AtomicDirectory(io::RealFileSystem(), request.root),
      {.rank = plan.topology.rank(), .world = plan.topology.world(), .all_agree = all_agree},
      {.units = units,
       .owned = owned,
       .optimizer = zero::IdentityOf(*plan.options.optimizer),
       .step = request.step,
       .hosts = plan.topology.hosts(),
       .ranks_per_host = plan.topology.ranks_per_host(),
       .keep = 1,
       .extra = {{"optimizer", ToJson(engine.progress())}, {"caller", request.extra}},
       .debts = engine.OwedAfterSteps()});
}

LoadedCheckpoint LoadModuleCheckpoint(zero::Engine& engine, const LoadRequest& request) {
  const std::string& root = request.root;
  const io::AllAgree all_agree = AllAgree(engine);
  std::string path;
  io::Together(all_agree, root, [&] {
    const io::AtomicDirectory::Survey survey =
        io::AtomicDirectory(io::RealFileSystem(), root).Look();
    if (survey.complete.empty()) {
      throw UsageError(StrCat(root, " holds no complete checkpoint: name another one with tag="));
    }
    path = survey.complete.front().path;
  });
  const std::vector<zero::UnitSpec> units = UnitsOf(engine.plan());
  const std::vector<zero::OwnedStretch> owned = engine.Owned();
  const zero::Checkpoint checkpoint =
      zero::LoadCheckpoint(io::RealFileSystem(), path,
                           {.units = units,
                            .owned = owned,
                            .optimizer = zero::IdentityOf(*engine.plan().options.optimizer),
                            .masters_only = request.masters_only,
                            .partial = request.partial},
                           all_agree);
  LoadedCheckpoint loaded{.path = path,
                          .extra = checkpoint.extra().value("caller", std::string()),
                          .progress = {},
                          .note = {}};
  const zero::Debts debts = engine.Owed();
  if (request.masters_only) {
    debts.Forget();
  } else if (!zero::LoadDebtsOfAll(io::RealFileSystem(), path, engine.plan().topology.rank(), units,
                                   debts, all_agree)) {
    loaded.note = StrCat("not resumed: ", zero::kWithoutDebts);
  }
  if (request.masters_only) {
    loaded.progress = {.steps = 0, .loss_scale = engine.progress().loss_scale};
  } else {
    loaded.progress = zero::ProgressOf(checkpoint.extra().value("optimizer", nlohmann::json()),
                                       checkpoint.directory(),
                                       "load it with load_optimizer_states=False, or another one");
  }
  return loaded;
}

}  // namespace thinwire::adapter
