// Where an optimizer stood, as checkpoints hold it beside the weights.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "thinwire/zero/engine.h"

namespace thinwire::zero {

nlohmann::json ToJson(const OptimizerProgress& progress);

// Throws UsageError when `saved` is not what ToJson() makes: "<source>: the manifest's
// optimizer.<key> is missing or makes no sense; <advice>".
OptimizerProgress ProgressOf(const nlohmann::json& saved, std::string_view source,
                             std::string_view advice);

}  // namespace thinwire::zero
