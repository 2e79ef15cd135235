#include "thinwire/train/agree.h"

#include <algorithm>

#include "thinwire/base/random.h"
#include "thinwire/comm/agreement.h"
#include "thinwire/planner/pilot.h"
#include "thinwire/zero/recipe.h"

namespace thinwire::train {

void AgreeOnConfig(transport::Transport& control, const Config& config, uint64_t data_fingerprint) {
  comm::Agreement agreement(control, {});
  comm::Record record;
  record.flags = (ConfigHash(config) ^ Mix64(data_fingerprint)) & comm::Record::kFreeFlags;
  const auto all = agreement.Exchange(record);
  const bool equal = std::ranges::all_of(
      all, [&](const comm::Record& other) { return other.flags == record.flags; });
  if (equal) return;
  for (const auto& [path, value] : SharedKeys(config)) {
    if (path == "parallel.recipe") continue;
    record.SetIntent(HashBytes(value), "%s = %s", path.c_str(), value.c_str());
    agreement.Exchange(record);
  }
  const bool is_auto = config.parallel.recipe == planner::kAuto;
  record.SetIntent(is_auto ? 1 : 0, "parallel.recipe %s", is_auto ? "= auto" : "by name");
  agreement.Exchange(record);
  // Hop by hop, since a whole recipe is longer than a record, and may be spelled in several ways.
  const zero::EngineOptions options = EngineOptionsOf(config);
  const DType wire = options.wire.value_or(options.compute);
  const std::string recipe = is_auto ? "zero3" : options.recipe;  // all are
  for (const auto& [hop, choice] : zero::HopsOf(zero::MakeRecipe(recipe, wire))) {
    record.SetIntent(HashBytes(choice), "parallel.recipe with %s=%s", std::string(hop).c_str(),
                     choice.c_str());
    agreement.Exchange(record);
  }
  record.SetIntent(data_fingerprint, "data.files with other names or sizes");
  agreement.Exchange(record);
}

}  // namespace thinwire::train
