#include "thinwire/train/checkpoints.h"

#include "thinwire/base/error.h"
#include "thinwire/zero/checkpoint.h"
#include "thinwire/zero/checkpoint_debts.h"
#include "thinwire/zero/optimizer_progress.h"

namespace thinwire::train {
namespace {

std::vector<zero::UnitSpec> UnitsOf(const zero::Plan& plan) {
  std::vector<zero::UnitSpec> units;
  units.reserve(plan.units.size());
  for (const zero::UnitLayout& unit : plan.units) units.push_back(unit.spec);
  return units;
}

std::string Changes(const Config& now, const Config& saved) {
  std::string changes;
  const std::vector<KeyValue> before = SharedKeys(saved), after = SharedKeys(now);
  for (size_t i = 0; i < after.size(); ++i) {
    if (after[i].value == before[i].value) continue;
    changes += StrCat(changes.empty() ? "" : ", ", after[i].path, " ", before[i].value, " -> ",
                      after[i].value);
  }
  return changes;
}

}  // namespace

Checkpoints::Checkpoints(const Config& config, zero::Engine& engine, DataIdentity data)
    : config_(config),
      engine_(engine),
      data_(data),
      root_(io::RealFileSystem(), config.output.directory) {}

bool Checkpoints::AllAgree(bool ok) { return engine_.MeanOverRanks(ok ? 1 : 0) == 1; }

std::string Checkpoints::Save(int64_t step, std::string& warning) {
  const zero::Plan& plan = engine_.plan();
  const std::vector<zero::UnitSpec> units = UnitsOf(plan);
  engine_.CatchUp();
  const std::vector<zero::OwnedStretch> owned = engine_.Owned();
  const io::Saver saver{.rank = plan.topology.rank(),
                        .world = plan.topology.world(),
                        .all_agree = [this](bool ok) { return AllAgree(ok); }};
  return zero::SaveCheckpoint(
      root_, saver,
      {.units = units,
       .owned = owned,
       .optimizer = zero::IdentityOf(*plan.options.optimizer),
       .step = step,
       .hosts = plan.topology.hosts(),
       .ranks_per_host = plan.topology.ranks_per_host(),
       .keep = static_cast<int>(config_.output.keep),
       .extra = {{"config", ToJson(config_)}, {"optimizer", ToJson(engine_.progress())}},
       .debts = engine_.OwedAfterSteps()},
      &warning);
}

int64_t Checkpoints::Newest(io::AtomicDirectory::Survey& survey) {
  io::Together([this](bool ok) { return AllAgree(ok); }, config_.output.directory,
               [&] { survey = root_.Look(); });
  const int64_t newest = survey.complete.empty() ? -1 : survey.complete.front().step;
  const double mean = engine_.MeanOverRanks(static_cast<double>(newest));
  // Of integers up to 2^53 only equal ones have each of themselves as their mean.
  if (!AllAgree(mean == static_cast<double>(newest))) {
    throw UsageError(StrCat("the ranks see different checkpoints in ", config_.output.directory,
                            ", here ", newest < 0 ? "none" : "step " + std::to_string(newest),
                            "; output.directory must be one directory that all ranks share"));
  }
  return newest;
}

void Checkpoints::RequireNone() {
  io::AtomicDirectory::Survey survey;
  if (const int64_t newest = Newest(survey); newest >= 0) {
    throw UsageError(StrCat("output.directory = ", config_.output.directory,
                            " holds checkpoints up to step ", newest,
                            " of another run: go on with --resume, or name another directory"));
  }
}

std::optional<int64_t> Checkpoints::Resume(std::string& note) {
  io::AtomicDirectory::Survey survey;
  if (Newest(survey) < 0) return std::nullopt;
  const std::vector<zero::UnitSpec> units = UnitsOf(engine_.plan());
  const std::vector<zero::OwnedStretch> owned = engine_.Owned();
  const zero::Checkpoint checkpoint =
      zero::LoadCheckpoint(io::RealFileSystem(), survey.complete.front().path,
                           {.units = units,
                            .owned = owned,
                            .optimizer = zero::IdentityOf(*engine_.plan().options.optimizer)},
                           [this](bool ok) { return AllAgree(ok); });
  const bool owes = zero::LoadDebtsOfAll(io::RealFileSystem(), survey.complete.front().path,
                                         engine_.plan().topology.rank(), units, engine_.Owed(),
                                         [this](bool ok) { return AllAgree(ok); });
  engine_.RefreshWeights(zero::ProgressOf(checkpoint.extra().value("optimizer", nlohmann::json()),
                                          checkpoint.directory(),
                                          "resume from another checkpoint"));
  note = Changes(config_, ConfigOf(checkpoint.extra(), checkpoint.directory()));
  if (!owes) note += StrCat(note.empty() ? "" : ", ", zero::kWithoutDebts);
  const auto add = [&](const char* key, auto now, std::string_view what) {
    const auto before = checkpoint.extra().find(key);
    if (before == checkpoint.extra().end() || *before == now) return;
    note += StrCat(note.empty() ? "" : ", ", what);
  };
  add("data_fingerprint", data_.fingerprint, "the data");
  add("samples_per_step", data_.samples_per_step,
      "the samples of a step (so that some are seen twice or not at all)");
  return checkpoint.step();
}

std::string NewestCheckpoint(const std::string& path) {
  io::FileSystem& fs = io::RealFileSystem();
  if (!io::IsDirectory(fs, path)) {
    throw UsageError(StrCat(path, ": no such directory; give a checkpoint, such as out/step-300, ",
                            "or the output directory that holds it"));
  }
  const io::AtomicDirectory::Survey survey = io::AtomicDirectory(fs, path).Look();
  if (!survey.complete.empty()) return survey.complete.front().path;
  for (const std::string& name : io::ListDirectory(fs, path)) {
    if (name == io::AtomicDirectory::kManifest) return path;
  }
  throw UsageError(StrCat(path, ": holds no complete checkpoint",
                          survey.ignored.empty() ? "" : "; ignored " + survey.ignored.front()));
}

Config ConfigOf(const nlohmann::json& extra, const std::string& source) {
  const auto config = extra.find("config");
  if (config == extra.end() || !config->is_string()) {
    throw UsageError(StrCat(source, ": was not saved by thinwire-train: it has no config"));
  }
  return ParseConfig(config->get<std::string>(), source);
}

}  // namespace thinwire::train
