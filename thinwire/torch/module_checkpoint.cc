#include "thinwire/torch/module_checkpoint.h"

#include <nlohmann/json.hpp>

#include "thinwire/base/error.h"
#include "thinwire/io/atomic_directory.h"
#include "thinwire/io/together.h"
#include "thinwire/zero/checkpoint.h"
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

std::string SaveModuleCheckpoint(zero::Engine& engine, const std::string& root, int64_t step,
                                 const std::string& extra) {
  const zero::Plan& plan = engine.plan();
  const io::AllAgree all_agree = AllAgree(engine);
  io::Together(all_agree, root, [&] {
    if (plan.topology.rank() == 0) io::MakeDirectories(io::RealFileSystem(), root);
  });
  const std::vector<zero::UnitSpec> units = UnitsOf(plan);
  const std::vector<zero::OwnedStretch> owned = engine.Owned();
  return zero::SaveCheckpoint(
      io::AtomicDirectory(io::RealFileSystem(), root),
      {.rank = plan.topology.rank(), .world = plan.topology.world(), .all_agree = all_agree},
      {.units = units,
       .owned = owned,
       .optimizer = zero::IdentityOf(*plan.options.optimizer),
       .step = step,
       .hosts = plan.topology.hosts(),
       .ranks_per_host = plan.topology.ranks_per_host(),
       .keep = 1,
       .extra = {{"optimizer", ToJson(engine.progress())},
                 {"caller", nlohmann::json::parse(extra)}}});
}

LoadedCheckpoint LoadModuleCheckpoint(zero::Engine& engine, const std::string& root,
                                      bool masters_only) {
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
                            .masters_only = masters_only},
                           all_agree);
  LoadedCheckpoint loaded{.path = path,
                          .extra = checkpoint.extra().value("caller", nlohmann::json()).dump(),
                          .progress = {}};
  if (masters_only) {
    loaded.progress = {.steps = 0, .loss_scale = engine.progress().loss_scale};
  } else {
    loaded.progress = zero::ProgressOf(checkpoint.extra().value("optimizer", nlohmann::json()),
                                       checkpoint.directory(),
                                       "load it with load_optimizer_states=False, or another one");
  }
  return loaded;
}

}  // namespace thinwire::adapter
